import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { findJsonProblem, type JsonObject, type JsonValue } from '../../src/kernel/jsonValue';
import { openSandbox } from './sandboxFixture';

const SEED = 20_261_122;
const fixture = openSandbox({ workers: 1 });
afterAll(async () => await fixture.sandbox.stop());

const quoted = fc
  .oneof(
    { weight: 9, arbitrary: fc.string({ unit: 'grapheme' }) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
  )
  .map((text) => JSON.stringify(text));
const key = fc.oneof(quoted, fc.constantFrom('a', 'b', '["__proto__"]', 'toString', '"0"', '7', '""', '"é"'));
const number = fc
  .oneof(fc.double(), fc.integer(), fc.constantFrom(0, -0, 2 ** 53, 1e21, 5e-324, 0.1 + 0.2))
  .map((value) => (Object.is(value, -0) ? '-0' : String(value)));
const odd = fc.constantFrom(
  'undefined',
  'null',
  'true',
  'function () {}',
  'Symbol("s")',
  '5n',
  'new Date(1e12)',
  'new Date(NaN)',
  '/x/g',
  'new Map([[1, 2]])',
  'new Set([1])',
  'new Uint8Array([1, 255])',
  'new Float32Array([0.5, NaN])',
  'new Number(3)',
  'new String("boxed")',
  'new Boolean(false)',
  'Object(Symbol("s"))',
  '[1, , 3]',
  'new Array(3)',
  'Object.create({ inherited: 1 })',
  '{ "__proto__": { inherited: 1 }, own: 1 }',
  'Object.defineProperty({ seen: 1 }, "hidden", { value: 2 })',
  '{ get now() { return [1, { a: NaN }]; } }',
  '{ toJSON() { return { from: "toJSON" }; } }',
  '{ toJSON(key) { return key; } }',
  '{ toJSON: 5 }',
  '{ [Symbol("s")]: 1, kept: 2 }',
  'Object.assign([1, 2], { named: 3 })',
  'Object.assign(function () {}, { named: 3, toJSON() { return "f"; } })',
  'new Proxy({ a: 1 }, {})',
  'new Proxy([1, 2], {})',
  'new (class Reading { v = 1; #p = 2; get w() { return 3; } })()',
  '(function () { var o = { a: 1 }; o.self = o; return o; })()',
  '(function () { var shared = { v: 1 }; return { a: shared, b: [shared, shared] }; })()',
  '{ long: "x".repeat(40000), more: "é".repeat(20000) }',
);
const { value } = fc.letrec<{ value: string; list: string; object: string }>((tie) => ({
  value: fc.oneof({ depthSize: 'small', withCrossShrink: true }, quoted, number, odd, tie('list'), tie('object')),
  list: fc.array(tie('value'), { maxLength: 4 }).map((items) => `[${items.join(', ')}]`),
  object: fc
    .array(fc.tuple(key, tie('value')), { maxLength: 5 })
    .map((members) => `{ ${members.map(([name, of]) => `${name}: ${of}`).join(', ')} }`),
}));
/** Nests values around the maximum depth. */
const deep = fc
  .tuple(value, fc.array(fc.constantFrom('{ o: ', '['), { minLength: 26, maxLength: 34 }))
  .map(([inner, around]) => around.reduceRight((text, open) => `${open}${text}${open === '[' ? ']' : ' }'}`, inner));
const members = fc
  .dictionary(
    fc.constantFrom('a', 'b', 'c', 'd'),
    fc.oneof({ weight: 6, arbitrary: value }, { weight: 1, arbitrary: deep }),
  )
  .map(
    (all) =>
      `{ ${Object.entries(all)
        .map(([name, of]) => `${name}: ${of}`)
        .join(', ')} }`,
  );
const data = fc.oneof({ weight: 5, arbitrary: members }, { weight: 1, arbitrary: value });

type Outcome = { readonly data: JsonObject } | { readonly code: string };

const isObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);

/** The expected result, computed in the simplest way. */
function computeExpected(source: string): Outcome {
  const evaluated: unknown = runInNewContext(`(${source})`);
  if (!isObject(evaluated)) return { code: 'bad_output' };
  let text: string | undefined;
  try {
    text = JSON.stringify(evaluated) as string | undefined;
  } catch {
    return { code: 'bad_output' };
  }
  const read = (text === undefined ? null : JSON.parse(text)) as JsonValue;
  if (!text?.startsWith('{') || findJsonProblem(read) !== undefined) return { code: 'bad_output' };
  return Buffer.byteLength(text) > 65_536 ? { code: 'too_large' } : { data: read as JsonObject };
}

describe(`decoded data (seed ${SEED})`, () => {
  it('equals JSON.parse(JSON.stringify(data))', async () => {
    const outcomeCounts = { data: 0, bad_output: 0, too_large: 0 };
    await fc.assert(
      fc.asyncProperty(data, fc.boolean(), async (source, isNew) => {
        const script = isNew
          ? `function decodeUplink() { return { data: ${source} }; }`
          : `function Decoder() { return ${source}; }`;
        const expected = isNew && source === 'undefined' ? { code: 'bad_output' } : computeExpected(source);
        const result = await fixture.decode(script);
        expect(result.data ? { data: result.data } : { code: result.error?.code }).toEqual(expected);
        // Values that are equal to toEqual may differ in key order.
        if ('data' in expected) expect(JSON.stringify(result.data)).toBe(JSON.stringify(expected.data));
        outcomeCounts['data' in expected ? 'data' : (expected.code as 'bad_output')] += 1;
      }),
      { seed: SEED, numRuns: 300 },
    );
    expect(Object.values(outcomeCounts).every((count) => count > 4)).toBe(true);
    expect(fixture.events).toEqual([]);
  });

  it('contains every value of the JSON text', async () => {
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 5 })), async (given) => {
        const expected = JSON.parse(JSON.stringify(given)) as JsonObject;
        fc.pre(findJsonProblem(expected) === undefined);
        expect(
          await fixture.data(`function Decoder() { return JSON.parse(${JSON.stringify(JSON.stringify(given))}); }`),
        ).toEqual(expected);
      }),
      { seed: SEED, numRuns: 100 },
    );
  });
});
