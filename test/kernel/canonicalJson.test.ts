import fc from 'fast-check';
import { canonicalHash, canonicalJson, isJsonEqual } from '../../src/kernel/canonicalJson';
import { getJsonDepth, findJsonProblem, type JsonValue } from '../../src/kernel/jsonValue';

describe('canonical JSON', () => {
  it('follows RFC 8785', () => {
    // The sample of section 3.2.
    const sample =
      '{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001], "string": "\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/", "literals": [null, true, false]}';
    expect(canonicalJson(JSON.parse(sample) as JsonValue)).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    );
  });

  it('sorts keys by UTF-16 code units and writes -0 as 0', () => {
    expect(canonicalJson({ '\u20ac': 1, '\r': 2, '\ud83d\ude00': 3, '\ufb33': 4, a: -0 })).toBe(
      '{"\\r":2,"a":0,"\u20ac":1,"\ud83d\ude00":3,"\ufb33":4}',
    );
  });

  it('has a known hash', () => {
    expect(canonicalHash({})).toBe('44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a');
  });

  it('does not depend on the order of keys', () => {
    const seed = 20260103;
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue() as fc.Arbitrary<JsonValue>), (object) => {
        expect(isJsonEqual(object, Object.fromEntries(Object.entries(object).toReversed()))).toBe(true);
      }),
      { seed },
    );
  });

  it.each<[JsonValue, JsonValue, boolean]>([
    [1, 1.0, true],
    [0, -0, true],
    [1, '1', false],
    [null, false, false],
    [[1, 2], [2, 1], false],
    [{ a: [{ b: null }] }, { a: [{ b: null }] }, true],
    [{ a: 1 }, [1], false],
  ])('%j and %j are equal: %j', (one, other, same) => {
    expect(isJsonEqual(one, other)).toBe(same);
  });
});

describe('a JSON value', () => {
  it.each<[JsonValue, number]>([
    [1, 1],
    [{}, 1],
    [[1], 2],
    [{ a: [{ b: 1 }], c: 1 }, 4],
  ])('%j has depth %i', (value, depth) => {
    expect(getJsonDepth(value)).toBe(depth);
  });

  it.each<[string, unknown, string]>([
    ['undefined', [undefined], 'not a JSON value'],
    ['a function', { a: () => 1 }, 'not a JSON value'],
    ['infinity', { a: Number.POSITIVE_INFINITY }, 'not finite'],
    ['an unpaired surrogate', ['\udc00'], 'surrogate'],
    ['a key with an unpaired surrogate', { '\ud800': 1 }, 'surrogate'],
    ['__proto__', JSON.parse('[{"__proto__": 1}]'), 'has the key "__proto__", which is not allowed'],
    ['33 levels', JSON.parse(`${'['.repeat(32)}1${']'.repeat(32)}`), 'deeper than 32'],
    ['5,000 levels', JSON.parse(`${'['.repeat(5_000)}1${']'.repeat(5_000)}`), 'deeper than 32'],
  ])('must not be %s', (_name, value, message) => {
    expect(findJsonProblem(value)).toContain(message);
  });
});
