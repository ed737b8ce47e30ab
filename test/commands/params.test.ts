import fc from 'fast-check';
import { evaluateParams, hashParams, type ParamSchema } from '../../src/commands';
import type { JsonObject, JsonValue } from '../../src/kernel/jsonValue';
import { param } from './definition';

const SEED = 20260104;

function findFault(entry: Partial<ParamSchema>, value: JsonValue): string | undefined {
  return evaluateParams({ x: param(entry) }, { x: value }).violations[0]?.description;
}

describe('evaluateParams', () => {
  it('fills in defaults, including null, and keeps the given values', () => {
    const schema = {
      a: param({ default: null }),
      b: param({ type: 'integer', default: 7 }),
      c: param({ type: 'string' }),
    };
    expect(evaluateParams(schema, { c: 'x' })).toEqual({ params: { a: null, b: 7, c: 'x' }, violations: [] });
    expect(evaluateParams(schema, { a: 1, b: 0, c: '' })).toEqual({ params: { a: 1, b: 0, c: '' }, violations: [] });
  });

  it('reports all faults at once, by parameter', () => {
    const schema = { a: param({ type: 'integer', min: 0, max: 9 }), b: param({ type: 'string' }), c: param() };
    expect(evaluateParams(schema, { a: 10, d: 1, toString: 1 }).violations).toEqual([
      { field: 'params.d', description: 'is not a parameter of the command; the command accepts a, b, c' },
      { field: 'params.toString', description: 'is not a parameter of the command; the command accepts a, b, c' },
      {
        field: 'params.a',
        description: 'is greater than 9: must be an integer (within ±(2^53 - 1)) from 0 up to 9',
      },
      { field: 'params.b', description: 'is required: must be a string' },
      { field: 'params.c', description: 'is required: must be a JSON value' },
    ]);
  });

  it('does not treat a property of the prototype as given', () => {
    expect(evaluateParams({ constructor: param() }, {}).violations.map((violation) => violation.field)).toEqual([
      'params.constructor',
    ]);
  });

  it('summarizes a hostile number of unknown parameters', () => {
    const given = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`p${at}`, at]));
    expect(evaluateParams({}, given).violations).toEqual([
      { field: 'params', description: 'has 5000 unknown parameters; the command accepts none' },
    ]);
  });

  it.each<[Partial<ParamSchema>, JsonValue]>([
    [{ type: 'integer' }, 2 ** 53 - 1],
    [{ type: 'integer' }, -0],
    [{ type: 'integer' }, 1e3],
    [{ type: 'number', min: 0, max: 1 }, 0],
    [{ type: 'number', min: 0, max: 1 }, 1],
    [{ type: 'string', pattern: 'b' }, 'abc'],
    [{ type: 'string', pattern: '^.$' }, '😀'],
    [{ enum: [{ a: 1, b: [2] }] }, { b: [2], a: 1 }],
    [{ enum: [1] }, 1.0],
    [{}, null],
  ])('accepts for %j the value %j', (entry, value) => {
    expect(findFault(entry, value)).toBeUndefined();
  });

  it.each<[Partial<ParamSchema>, JsonValue, string]>([
    [{ type: 'integer' }, 2 ** 53, 'must be an integer'],
    [{ type: 'integer' }, 1.5, 'must be an integer'],
    [{ type: 'integer' }, '1', 'must be an integer'],
    [{ type: 'number' }, Number.NaN, 'not finite'],
    [{ type: 'number' }, true, 'must be a number'],
    [{ type: 'boolean' }, 0, 'must be true or false'],
    [{ type: 'string' }, null, 'must be a string'],
    [{ type: 'string' }, '\ud800', 'surrogate'],
    [{ type: 'string', pattern: '^b$' }, 'abc', 'does not match the pattern ^b$'],
    [{ type: 'string', pattern: '^(a+)+$' }, 'a'.repeat(513), 'at most 512 characters'],
    [{ enum: [1, '2'] }, 2, 'is not one of the allowed values: use 1, "2"'],
    [{ enum: [{ a: 1 }] }, { a: 1, b: 2 }, 'is not one of the allowed values'],
    [{}, JSON.parse(`${'['.repeat(40)}${']'.repeat(40)}`) as JsonValue, 'deeper than 32'],
    [{}, JSON.parse('{"__proto__": 1}') as JsonValue, '__proto__'],
  ])('rejects for %j the value %j', (entry, value, said) => {
    expect(findFault(entry, value)).toContain(said);
  });

  it('handles a pattern that makes backtracking engines explode', () => {
    expect(findFault({ type: 'string', pattern: '^(a|a)*(a+)+$' }, `${'a'.repeat(500)}!`)).toContain('does not match');
  });

  it('returns only parameters of the schema with values that the schema allows', () => {
    const schema = {
      a: param({ type: 'integer', min: 0 }),
      b: param({ type: 'string', default: 'x' }),
      c: param({ enum: [1, [2]], default: 1 }),
    };
    const given = fc.dictionary(
      fc.constantFrom('a', 'b', 'c', 'd', '__proto__', 'constructor'),
      fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<JsonValue>,
    );
    fc.assert(
      fc.property(given, (params: JsonObject) => {
        const result = evaluateParams(schema, params);
        expect(Object.keys(result.params).every((name) => Object.hasOwn(schema, name))).toBe(true);
        if (result.violations.length === 0) expect(evaluateParams(schema, result.params)).toEqual(result);
      }),
      { seed: SEED },
    );
  });
});

describe('the hash of parameters', () => {
  it('does not depend on the order or on explicit defaults', () => {
    const schema = { a: param({ default: 1 }), b: param() };
    const given: JsonObject[] = [{ b: { x: 1, y: 2 } }, { b: { y: 2, x: 1 }, a: 1 }, { a: 1.0, b: { x: 1, y: 2 } }];
    const hashes = given.map((one) => hashParams(evaluateParams(schema, one).params));
    expect(new Set(hashes).size).toBe(1);
    expect(hashes[0]).toMatch(/^[0-9a-f]{64}$/);
  });
});
