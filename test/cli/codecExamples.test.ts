import { isDeepStrictEqual } from 'node:util';
import { bytesOfText } from '../../src/cli/codec/bytesText';
import { exampleOf } from '../../src/cli/codec/example';
import { inParallel } from '../../src/cli/codec/exampleRunner';
import { valueDifference } from '../../src/cli/codec/valueDifference';
import type { JsonValue } from '../../src/kernel/jsonValue';

describe('bytes that are written as a text', () => {
  it.each([
    ['', []],
    ['0128', [1, 40]],
    ['01 28', [1, 40]],
    [' 01:28\n', [1, 40]],
    ['0x01, 0x28', [1, 40]],
    ['FF-fe', [255, 254]],
    ['ABCD', [171, 205]], // base64 as well
    ['ASg=', [1, 40]],
    ['ASg', [1, 40]],
    ['-_8', [251, 255]],
    ['+/8=', [251, 255]],
    ['012', undefined],
    ['01 2', undefined],
    ['AS g=', undefined],
    ['zero', [205, 234, 232]],
    ['no bytes!', undefined],
    ['0x', undefined],
  ])('%j', (text, bytes) => expect(bytesOfText(text)).toEqual(bytes));

  it('takes no longer for a long text that is none', () => {
    const before = performance.now();
    for (const text of ['01'.repeat(500_000) + '?', '01 '.repeat(300_000) + '?', '0x'.repeat(500_000) + '?', ' '.repeat(1_000_000) + '!']) expect(bytesOfText(text)).toBeUndefined();
    expect(performance.now() - before).toBeLessThan(2000);
  });
});

/** Numbers from 0 up to below 1, the same each time. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null && !Array.isArray(value);

/** As JSON that has no null members: those may be absent. */
const plain = (value: JsonValue): unknown => JSON.parse(JSON.stringify(value, (_, inner: unknown) => (isObject(inner) ? Object.fromEntries(Object.entries(inner).filter(([, member]) => member !== null)) : inner)));

describe('the difference of two values', () => {
  const random = randomOf(7);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const made = (depth: number): JsonValue => {
    if (depth === 0 || random() < 0.3) return pick([null, true, false, 0, 1, -1.5, 1e300, '', 'a', '1', 'ä\n']);
    const size = Math.floor(random() * 4);
    if (random() < 0.4) return Array.from({ length: size }, () => made(depth - 1));
    return Object.fromEntries(Array.from({ length: size }, () => [pick(['a', 'b', 'c d', '0', 'constructor', 'toString']), made(depth - 1)]));
  };
  /** The same but for one place, perhaps. */
  const changed = (value: JsonValue): JsonValue => {
    if (typeof value !== 'object' || value === null || random() < 0.2) return made(1);
    if (Array.isArray(value)) return (value as readonly JsonValue[]).map((item) => (random() < 0.4 ? changed(item) : item));
    const entries = Object.entries(value).map(([name, inner]): [string, JsonValue] => [name, random() < 0.4 ? changed(inner) : inner]);
    return Object.fromEntries(entries.toReversed());
  };

  it('is there when they are not equal, and only then', () => {
    let equal = 0;
    for (let round = 0; round < 5000; round += 1) {
      const expected = plain(made(4)) as JsonValue;
      const got = plain(random() < 0.3 ? structuredClone(expected) : changed(expected)) as JsonValue;
      const difference = valueDifference('data', expected, got);
      const same = isDeepStrictEqual(expected, got);
      if (same) equal += 1;
      expect([expected, got, difference === undefined]).toEqual([expected, got, same]);
      if (difference !== undefined) expect(difference).toMatch(/^data(?:\.\w+|\[\d+\]|\["[^"]*"\])*: (?:expected|none expected)/);
    }
    expect(equal).toBeGreaterThan(1000);
    expect(equal).toBeLessThan(4000);
  });

  it.each([
    [1, 1.0000001, ' (only by rounding)'],
    [0.1, 0.10000000149011612, ' (only by rounding)'],
    [0, 1e-12, ''],
    [1, 1.001, ''],
    [-1, 1, ''],
  ])('says of %d and %d whether they differ by rounding', (expected, got, end) => expect(valueDifference('data', expected, got)).toBe(`data: expected ${expected}, got ${got}${end}`));
});

describe('an item of a list of examples', () => {
  it('says itself what is wrong with it, whatever it is', () => {
    const odd: unknown[] = [null, 5, 'x', [], {}, [[]], { input: 5 }, { input: [] }, { input: { bytes: {} } }, { input: { bytes: [1, null] }, output: {} }, { input: { data: { a: NaN } } }, { description: {}, name: [], input: { data: 1 }, output: { bytes: [1] } }];
    for (const item of odd) {
      for (const role of [undefined, 'encoder', 'decoder', 'downlinkDecoder'] as const) expect([item, exampleOf(item, 3, 'f.json', role)]).toEqual([item, { name: '[3]', result: 'failed', why: expect.stringMatching(/^f\.json: \[3\]/) }]);
    }
    let deep: unknown = 1;
    for (let depth = 0; depth < 100_000; depth += 1) deep = [deep];
    expect(exampleOf({ input: { bytes: [1] }, output: { data: { deep } } }, 0, 'f.json')).toMatchObject({ result: 'failed', why: expect.stringContaining('[0].output.data: is nested deeper than 32 levels') });
  });

  it('is named by either word, also by a number', () => {
    const rest = { input: { data: 1 }, output: { bytes: [1] } };
    expect([{ description: 'a', name: 'b' }, { name: 'b' }, { description: '', name: 'b' }, { description: 25 }, {}].map((words) => exampleOf({ ...words, ...rest }, 0, 'f').name)).toEqual(['a', 'b', 'b', '25', '[0]']);
  });
});

describe('jobs in parallel', () => {
  it('are each done once, no more at a time than there are workers', async () => {
    let [running, most] = [0, 0];
    const done: string[] = [];
    await inParallel(['a', 'b', 'c', 'd', 'e'], 3, async (job, at) => {
      most = Math.max(most, (running += 1));
      await new Promise(setImmediate);
      running -= 1;
      done[at] = job;
    });
    expect([done, most]).toEqual([['a', 'b', 'c', 'd', 'e'], 3]);
  });

  it('end with the first that fails, and what makes them is ended', async () => {
    let [begun, ended] = [0, false];
    async function* endless(): AsyncGenerator<number> {
      try {
        for (let at = 0; ; at += 1) yield await Promise.resolve(at);
      } finally {
        ended = true;
      }
    }
    const failing = inParallel(endless(), 2, async (at) => {
      begun += 1;
      await new Promise(setImmediate);
      if (at === 3) throw new Error('no thread');
    });
    await expect(failing).rejects.toThrow('no thread');
    expect([begun < 8, ended]).toEqual([true, true]);
  });
});
