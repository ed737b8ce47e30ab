import { isDeepStrictEqual } from 'node:util';
import { parseBytes } from '../../src/cli/codec/parseBytes';
import { parseExample } from '../../src/cli/codec/example';
import { runInParallel } from '../../src/cli/codec/exampleRunner';
import { findValueDifference } from '../../src/cli/codec/valueDifference';
import type { JsonValue } from '../../src/kernel/jsonValue';

describe('bytes written as text', () => {
  it.each([
    ['', []],
    ['0128', [1, 40]],
    ['01 28', [1, 40]],
    [' 01:28\n', [1, 40]],
    ['0x01, 0x28', [1, 40]],
    ['FF-fe', [255, 254]],
    ['ABCD', [171, 205]], // This text is also valid base64.
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
  ])('%j', (text, bytes) => expect(parseBytes(text)).toEqual(bytes));

  it('rejects a long invalid text without taking longer', () => {
    // Parsing that takes quadratic time would not end within the time limit.
    for (const text of [
      '01'.repeat(500_000) + '?',
      '01 '.repeat(300_000) + '?',
      '0x'.repeat(500_000) + '?',
      ' '.repeat(1_000_000) + '!',
    ])
      expect(parseBytes(text)).toBeUndefined();
  });
});

/** Returns a generator of numbers from 0 (inclusive) to 1 (exclusive). The sequence is the same for the same seed. */
function getRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Converts a value to JSON without null members, because those may be absent. */
const plain = (value: JsonValue): unknown =>
  JSON.parse(
    JSON.stringify(value, (_, inner: unknown) =>
      isObject(inner) ? Object.fromEntries(Object.entries(inner).filter(([, member]) => member !== null)) : inner,
    ),
  );

describe('the difference between two values', () => {
  const random = getRandom(7);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const createValue = (depth: number): JsonValue => {
    if (depth === 0 || random() < 0.3) return pick([null, true, false, 0, 1, -1.5, 1e300, '', 'a', '1', 'ä\n']);
    const size = Math.floor(random() * 4);
    if (random() < 0.4) return Array.from({ length: size }, () => createValue(depth - 1));
    return Object.fromEntries(
      Array.from({ length: size }, () => [
        pick(['a', 'b', 'c d', '0', 'constructor', 'toString']),
        createValue(depth - 1),
      ]),
    );
  };
  /** Returns a copy that may differ in one place. */
  const changed = (value: JsonValue): JsonValue => {
    if (typeof value !== 'object' || value === null || random() < 0.2) return createValue(1);
    if (Array.isArray(value))
      return (value as readonly JsonValue[]).map((item) => (random() < 0.4 ? changed(item) : item));
    const entries = Object.entries(value).map(([name, inner]): [string, JsonValue] => [
      name,
      random() < 0.4 ? changed(inner) : inner,
    ]);
    return Object.fromEntries(entries.toReversed());
  };

  it('exists if and only if the values are not equal', () => {
    let equal = 0;
    for (let round = 0; round < 5000; round += 1) {
      const expected = plain(createValue(4)) as JsonValue;
      const got = plain(random() < 0.3 ? structuredClone(expected) : changed(expected)) as JsonValue;
      const difference = findValueDifference('data', expected, got);
      const same = isDeepStrictEqual(expected, got);
      if (same) equal += 1;
      expect([expected, got, difference === undefined]).toEqual([expected, got, same]);
      if (difference !== undefined)
        expect(difference).toMatch(/^data(?:\.\w+|\[\d+\]|\["[^"]*"\])*: (?:expected|none expected)/);
    }
    expect(equal).toBeGreaterThan(1000);
    expect(equal).toBeLessThan(4000);
  });

  it.each([
    [1, 1.0000001, ' (differs only by rounding)'],
    [0.1, 0.10000000149011612, ' (differs only by rounding)'],
    [1, 1 + 2e-13, ' (differs only by rounding)'],
    [0, 1e-14, ''],
    [1, 1.001, ''],
    [-1, 1, ''],
  ])('reports whether %d and %d differ only by rounding', (expected, got, end) =>
    expect(findValueDifference('data', expected, got)).toBe(`data: expected ${expected}, got ${got}${end}`),
  );
});

it.each([
  [21.5, 21.499999999999996],
  [1, 1 + 9e-14],
  [1, 1 - 9e-14],
  [-1e300, -1e300 * (1 + 5e-14)],
  [0, -0],
])('treats %d and %d as equal: they differ in the 14th digit at most', (expected, got) =>
  expect(findValueDifference('data', { a: [expected] }, { a: [got] })).toBeUndefined(),
);

describe('an entry in a list of examples', () => {
  it('reports its own error, for any value', () => {
    const odd: unknown[] = [
      null,
      5,
      'x',
      [],
      {},
      [[]],
      { input: 5 },
      { input: [] },
      { input: { bytes: {} } },
      { input: { bytes: [1, null] }, output: {} },
      { input: { data: { a: NaN } } },
      { description: {}, name: [], input: { data: 1 }, output: { bytes: [1] } },
    ];
    for (const item of odd) {
      for (const role of [undefined, 'encoder', 'decoder', 'downlinkDecoder'] as const)
        expect([item, parseExample(item, 3, 'f.json', role)]).toEqual([
          item,
          { name: '[3]', result: 'failed', reason: expect.stringMatching(/^f\.json: \[3\]/) },
        ]);
    }
    let deep: unknown = 1;
    for (let depth = 0; depth < 100_000; depth += 1) deep = [deep];
    expect(parseExample({ input: { bytes: [1] }, output: { data: { deep } } }, 0, 'f.json')).toMatchObject({
      result: 'failed',
      reason: expect.stringContaining('[0].output.data: is nested deeper than 32 levels'),
    });
  });

  it('accepts both names for the field, also with a number', () => {
    const rest = { input: { data: 1 }, output: { bytes: [1] } };
    expect(
      [{ description: 'a', name: 'b' }, { name: 'b' }, { description: '', name: 'b' }, { description: 25 }, {}].map(
        (words) => parseExample({ ...words, ...rest }, 0, 'f').name,
      ),
    ).toEqual(['a', 'b', 'b', '25', '[0]']);
  });
});

describe('parallel jobs', () => {
  it('run once each, with no more at a time than there are workers', async () => {
    let [running, max] = [0, 0];
    const done: string[] = [];
    await runInParallel(['a', 'b', 'c', 'd', 'e'], 3, async (job, at) => {
      max = Math.max(max, (running += 1));
      await new Promise(setImmediate);
      running -= 1;
      done[at] = job;
    });
    expect([done, max]).toEqual([['a', 'b', 'c', 'd', 'e'], 3]);
  });

  it('stop at the first failure, and close the generator of jobs', async () => {
    let [startedCount, isClosed] = [0, false];
    async function* endless(): AsyncGenerator<number> {
      try {
        for (let at = 0; ; at += 1) yield await Promise.resolve(at);
      } finally {
        isClosed = true;
      }
    }
    const failing = runInParallel(endless(), 2, async (at) => {
      startedCount += 1;
      await new Promise(setImmediate);
      if (at === 3) throw new Error('no thread');
    });
    await expect(failing).rejects.toThrow('no thread');
    expect([startedCount < 8, isClosed]).toEqual([true, true]);
  });
});
