import fc from 'fast-check';
import { isSurelyLarger, type JsonValue } from '../../src/kernel/jsonValue';

const SEED = 20261121;

describe('whether a value is surely larger', () => {
  it(`is never said of one that fits (seed ${SEED})`, () => {
    fc.assert(fc.property(fc.jsonValue(), (value) => !isSurelyLarger(value as JsonValue, Buffer.byteLength(JSON.stringify(value)))), { seed: SEED });
  });

  it.each<[string, JsonValue]>([
    ['a text', 'x'.repeat(101)],
    ['a list', Array.from({ length: 101 }, () => 1)],
    ['keys', Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`k${at}`, null]))],
    ['what is deep inside', [[[[{ a: { b: ['x'.repeat(101)] } }]]]]],
  ])('is said of %s', (_name, value) => expect(isSurelyLarger(value, 100)).toBe(true));
});
