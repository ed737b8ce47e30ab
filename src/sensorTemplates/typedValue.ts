import type { JsonValue } from '../kernel/jsonValue';
import type { ValueType } from './sensorTemplate';

// A number as JSON writes it: no sign in front but a minus, no leading zeros, no spaces.
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const BOOLEANS = new Map<unknown, boolean>([[true, true], [1, true], ['1', true], ['true', true], ['on', true], [false, false], [0, false], ['0', false], ['false', false], ['off', false]]);

/**
 * A value as a sensor of this type has it; undefined: it is none of that type, and never taken for another one.
 * number: a finite number, or a text that is one as JSON writes it. integer: the same, if it is whole and below 2^53.
 * boolean: true, false, 1, 0, and as text of any case also "on", "off". string: a text. json: anything.
 */
export function typedValue(valueType: ValueType, value: JsonValue): JsonValue | undefined {
  return READERS[valueType](value);
}

const READERS: Readonly<Record<ValueType, (value: JsonValue) => JsonValue | undefined>> = {
  number: numberOf,
  integer: (value) => {
    const number = numberOf(value);
    return Number.isSafeInteger(number) ? number : undefined;
  },
  boolean: (value) => BOOLEANS.get(typeof value === 'string' ? value.toLowerCase() : value),
  string: (value) => (typeof value === 'string' ? value : undefined),
  json: (value) => value,
};

function numberOf(value: JsonValue): number | undefined {
  const number = typeof value === 'string' && NUMBER.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}
