import fc from 'fast-check';
import { evaluateParams, paramsHash, type ParamSchema } from '../../src/commands';
import type { JsonObject, JsonValue } from '../../src/kernel/jsonValue';
import { param } from './definition';

const SEED = 20260104;

function faultOf(entry: Partial<ParamSchema>, value: JsonValue): string | undefined {
  return evaluateParams({ x: param(entry) }, { x: value }).violations[0]?.description;
}

describe('evaluating parameters', () => {
  it('fills in defaults, null included, and keeps what is given', () => {
    const schema = { a: param({ default: null }), b: param({ type: 'integer', default: 7 }), c: param({ type: 'string' }) };
    expect(evaluateParams(schema, { c: 'x' })).toEqual({ params: { a: null, b: 7, c: 'x' }, violations: [] });
    expect(evaluateParams(schema, { a: 1, b: 0, c: '' })).toEqual({ params: { a: 1, b: 0, c: '' }, violations: [] });
  });

  it('names all faults at once, by parameter', () => {
    const schema = { a: param({ type: 'integer', min: 0, max: 9 }), b: param({ type: 'string' }), c: param() };
    expect(evaluateParams(schema, { a: 10, d: 1, toString: 1 }).violations).toEqual([
      { field: 'params.d', description: 'is not a parameter of the command; it takes a, b, c' },
      { field: 'params.toString', description: 'is not a parameter of the command; it takes a, b, c' },
      { field: 'params.a', description: 'is greater than 9; give a whole number of at most 2^53 - 1 in size from 0 up to 9' },
      { field: 'params.b', description: 'is required; give a text' },
      { field: 'params.c', description: 'is required; give a JSON value' },
    ]);
  });

  it('names no parameter of the prototype as given', () => {
    expect(evaluateParams({ constructor: param() }, {}).violations.map((violation) => violation.field)).toEqual(['params.constructor']);
  });

  it('sums up a hostile number of unknown ones', () => {
    const given = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`p${at}`, at]));
    expect(evaluateParams({}, given).violations).toEqual([{ field: 'params', description: 'holds 5000 parameters that the command does not have; it takes none' }]);
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
  ])('%j allows %j', (entry, value) => {
    expect(faultOf(entry, value)).toBeUndefined();
  });

  it.each<[Partial<ParamSchema>, JsonValue, string]>([
    [{ type: 'integer' }, 2 ** 53, 'must be a whole number'],
    [{ type: 'integer' }, 1.5, 'must be a whole number'],
    [{ type: 'integer' }, '1', 'must be a whole number'],
    [{ type: 'number' }, Number.NaN, 'not finite'],
    [{ type: 'number' }, true, 'must be a number'],
    [{ type: 'boolean' }, 0, 'must be true or false'],
    [{ type: 'string' }, null, 'must be a text'],
    [{ type: 'string' }, '\ud800', 'surrogate'],
    [{ type: 'string', pattern: '^b$' }, 'abc', 'does not match the pattern ^b$'],
    [{ type: 'string', pattern: '^(a+)+$' }, 'a'.repeat(513), 'at most 512 characters'],
    [{ enum: [1, '2'] }, 2, 'is not one of the allowed values; give 1, "2"'],
    [{ enum: [{ a: 1 }] }, { a: 1, b: 2 }, 'is not one of the allowed values'],
    [{}, JSON.parse(`${'['.repeat(40)}${']'.repeat(40)}`) as JsonValue, 'deeper than 32'],
    [{}, JSON.parse('{"__proto__": 1}') as JsonValue, '__proto__'],
  ])('%j refuses %j', (entry, value, said) => {
    expect(faultOf(entry, value)).toContain(said);
  });

  it('answers a pattern that makes backtracking engines explode', () => {
    expect(faultOf({ type: 'string', pattern: '^(a|a)*(a+)+$' }, `${'a'.repeat(500)}!`)).toContain('does not match');
  });

  it('never returns a parameter that the schema does not have, nor one that the schema does not allow', () => {
    const schema = { a: param({ type: 'integer', min: 0 }), b: param({ type: 'string', default: 'x' }), c: param({ enum: [1, [2]], default: 1 }) };
    const given = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd', '__proto__', 'constructor'), fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<JsonValue>);
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
  it('is the same whatever the order, and with or without what is a default', () => {
    const schema = { a: param({ default: 1 }), b: param() };
    const given: JsonObject[] = [{ b: { x: 1, y: 2 } }, { b: { y: 2, x: 1 }, a: 1 }, { a: 1.0, b: { x: 1, y: 2 } }];
    const hashes = given.map((one) => paramsHash(evaluateParams(schema, one).params));
    expect(new Set(hashes).size).toBe(1);
    expect(hashes[0]).toMatch(/^[0-9a-f]{64}$/);
  });
});
