import type { JsonValue } from '../kernel/jsonValue';
import type { ValueType } from './sensorTemplate';

// A JSON number: no leading plus sign, zeros or spaces.
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
/** All values that a boolean sensor accepts, texts in lower case. */
const BOOLEANS = new Map<unknown, boolean>([
  [true, true],
  [1, true],
  ['1', true],
  ['true', true],
  ['on', true],
  [false, false],
  [0, false],
  ['0', false],
  ['false', false],
  ['off', false],
]);

/**
 * Converts a value to the type of its sensor; undefined if it does not have that type. number: a finite number, or a
 * string that holds a JSON number. integer: the same, without fraction and below 2^53. boolean: true, false, 1, 0, and
 * the strings "true", "false", "1", "0", "on", "off" in any case. string: a string. json: any value.
 */
export function convertToType(valueType: ValueType, value: JsonValue): JsonValue | undefined {
  return CONVERTERS[valueType](value);
}

const CONVERTERS: Readonly<Record<ValueType, (value: JsonValue) => JsonValue | undefined>> = {
  number: parseNumber,
  integer: (value) => {
    const number = parseNumber(value);
    return Number.isSafeInteger(number) ? number : undefined;
  },
  boolean: (value) => BOOLEANS.get(typeof value === 'string' ? value.toLowerCase() : value),
  string: (value) => (typeof value === 'string' ? value : undefined),
  json: (value) => value,
};

/**
 * Returns the number that a value is, or holds as the text of a JSON number; undefined if it is not a finite number.
 */
function parseNumber(value: JsonValue): number | undefined {
  const number = typeof value === 'string' && NUMBER.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}
