import fc from 'fast-check';
import { parseSourcePath } from '../../src/devices';
import { MAX_PAYLOAD_DEPTH, flatten, MAX_PATHS, type Sample } from '../../src/telemetry/uplinks/flatten';

const SEED = 20_261_122;
const KEYS = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'toString', 'a.b', 'a[0]', '', 'length', '0', '"'),
  fc.string({ maxLength: 8 }),
);
const JSON_VALUE = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.oneof(
      fc.constant(null),
      fc.boolean(),
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.string({ unit: 'binary' }),
    ),
    fc.array(tie('value'), { maxLength: 5 }),
    fc.array(fc.tuple(KEYS, tie('value')), { maxLength: 5 }).map(getObject),
  ),
})).value;

function getObject(entries: [string, unknown][]): Record<string, unknown> {
  const object: Record<string, unknown> = {};
  for (const [key, value] of entries)
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  return object;
}

function listSamples(payload: Record<string, unknown>): readonly Sample[] {
  const flattened = flatten(payload);
  if ('reason' in flattened) throw new Error(flattened.reason);
  return flattened.samples;
}

/** Returns the value at a path, following only own properties and array items. */
function at(value: unknown, path: string): unknown {
  const steps = parseSourcePath(path);
  if (!steps) throw new Error(`${path} is no path`);
  return steps.reduce<unknown>((inner, step) => Object.getOwnPropertyDescriptor(inner, step)?.value as unknown, value);
}

function leaves(value: unknown): number {
  const inner = typeof value === 'object' && value !== null ? Object.values(value) : [];
  return inner.length === 0 ? 1 : inner.reduce<number>((sum, one) => sum + leaves(one), 0);
}

function nested(depth: number): Record<string, unknown> {
  let value: unknown = 1;
  for (let at = 1; at < depth; at += 1) value = { a: value };
  return value as Record<string, unknown>;
}

describe('flattening a payload', () => {
  it('names every value by its path, in the order of the payload', () => {
    const payload = {
      temperature: 21.5,
      data: { relays: [true, { on: false }], 'room name': 'x' },
      none: null,
      empty: {},
      list: [],
      'a.b': 1,
    };
    expect(listSamples(payload)).toEqual([
      ['temperature', 21.5],
      ['data.relays[0]', true],
      ['data.relays[1].on', false],
      ['data["room name"]', 'x'],
      ['none', null],
      ['empty', {}],
      ['list', []],
      ['["a.b"]', 1],
    ]);
    expect(listSamples({})).toEqual([]);
  });

  it('returns each path once, and the path leads to its value', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(KEYS, JSON_VALUE), { maxLength: 6 }).map(getObject), (payload) => {
        const samples = listSamples(payload);
        for (const [path, value] of samples) expect(at(payload, path)).toBe(value);
        expect(new Set(samples.map(([path]) => path)).size).toBe(samples.length);
        expect(samples.length).toBe(Math.min(MAX_PATHS, Object.keys(payload).length === 0 ? 0 : leaves(payload)));
      }),
      { seed: SEED, numRuns: 500 },
    );
  });

  it('treats hostile names as data and changes no prototype', () => {
    const payload = JSON.parse(
      '{"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 2}}, "a": {"__proto__": 3}}',
    ) as Record<string, unknown>;
    expect(listSamples(payload)).toEqual([
      ['__proto__.polluted', 1],
      ['constructor.prototype.polluted', 2],
      ['a.__proto__', 3],
    ]);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it('accepts the maximum depth and rejects anything deeper', () => {
    expect(listSamples(nested(MAX_PAYLOAD_DEPTH))).toHaveLength(1);
    expect(flatten(nested(MAX_PAYLOAD_DEPTH + 1))).toEqual({ reason: 'payload_too_deep' });
    expect(flatten(nested(20_000))).toEqual({ reason: 'payload_too_deep' });
  });

  it.each([[NaN], [Infinity], [undefined], [10n], [() => {}]])('rejects %p, which JSON cannot represent', (value) => {
    expect(flatten({ fine: 1, list: [{ value }] })).toEqual({ reason: 'payload_not_json' });
  });

  it('returns the first 500 values and omits paths that are too long to be mapped', () => {
    const wide = Object.fromEntries(Array.from({ length: 700 }, (_, index) => [`k${index}`, index]));
    const flattened = flatten(wide);
    expect(flattened).toMatchObject({ isComplete: false });
    expect(listSamples(wide)).toEqual(Object.entries(wide).slice(0, MAX_PATHS));
    expect(flatten({ list: Array.from({ length: 501 }, () => 0) })).toMatchObject({ isComplete: false });
    expect(flatten({ list: Array.from({ length: 500 }, () => 0) })).toMatchObject({ isComplete: true });
    expect(flatten({ ['x'.repeat(513)]: 1, short: 2 })).toEqual({ samples: [['short', 2]], isComplete: false });
  });
});
