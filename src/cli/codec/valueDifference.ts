import { isObject, type JsonObject, type JsonValue } from '../../kernel/jsonValue';
import { toPlainText } from '../plainText';

const PLAIN_NAME = /^[A-Za-z_$][\w$]*$/;
/**
 * Numbers with at most this relative difference count as equal: another order of operations can change the 14th
 * significant digit.
 */
const MAX_RELATIVE_DIFFERENCE = 1e-13;
/** A relative difference up to this is 32-bit float rounding: the values are not equal, and the report says why. */
const SINGLE_PRECISION_DIFFERENCE = 1e-6;

/**
 * Finds the first difference between two values, with its path; undefined: equal. A null field may be absent, because
 * scripts often omit it.
 */
export function findValueDifference(
  path: string,
  expected: JsonValue,
  actual: JsonValue | undefined,
): string | undefined {
  if (isCloseEnough(expected, actual)) return undefined;
  if (isList(expected) && isList(actual)) return findListDifference(path, expected, actual);
  if (isObject(expected) && actual !== undefined && isObject(actual))
    return findFieldDifference(path, expected, actual);
  return `${path}: expected ${formatValue(expected)}, got ${formatValue(actual)}${isWithin(SINGLE_PRECISION_DIFFERENCE, expected, actual) ? ' (differs only by rounding)' : ''}`;
}

/**
 * Whether two values count as equal: identical, numbers within MAX_RELATIVE_DIFFERENCE, or an absent value for an
 * expected null. Lists and objects are compared by their items and fields.
 */
function isCloseEnough(expected: JsonValue, actual: JsonValue | undefined): boolean {
  return (
    expected === actual ||
    (expected === null && actual === undefined) ||
    isWithin(MAX_RELATIVE_DIFFERENCE, expected, actual)
  );
}

/** Finds the first difference between two lists: of an item, or of their lengths. */
function findListDifference(
  path: string,
  expected: readonly JsonValue[],
  actual: readonly JsonValue[],
): string | undefined {
  for (const [index, value] of expected.slice(0, actual.length).entries()) {
    const difference = findValueDifference(`${path}[${index}]`, value, actual[index]);
    if (difference !== undefined) return difference;
  }
  return expected.length === actual.length
    ? undefined
    : `${path}: expected ${formatItemCount(expected)}, got ${formatItemCount(actual)}`;
}

/** Finds the first difference between the fields of two objects. */
function findFieldDifference(path: string, expected: JsonObject, actual: JsonObject): string | undefined {
  for (const [name, value] of Object.entries(expected)) {
    const difference = findValueDifference(
      formatFieldPath(path, name),
      value,
      Object.hasOwn(actual, name) ? actual[name] : undefined,
    );
    if (difference !== undefined) return difference;
  }
  const unexpected = Object.keys(actual).find((name) => !Object.hasOwn(expected, name));
  return unexpected === undefined
    ? undefined
    : `${formatFieldPath(path, unexpected)}: none expected, got ${formatValue(actual[unexpected])}`;
}

/** Whether both values are numbers whose relative difference is within the limit. */
function isWithin(maxRelativeDifference: number, expected: JsonValue, actual: JsonValue | undefined): boolean {
  return (
    typeof expected === 'number' &&
    typeof actual === 'number' &&
    Math.abs(expected - actual) <= maxRelativeDifference * Math.max(Math.abs(expected), Math.abs(actual))
  );
}

const isList = (value: JsonValue | undefined): value is readonly JsonValue[] => Array.isArray(value);
const formatItemCount = ({ length }: readonly unknown[]): string => `${length} ${length === 1 ? 'item' : 'items'}`;
const formatFieldPath = (path: string, name: string): string =>
  PLAIN_NAME.test(name) ? `${path}.${name}` : `${path}[${formatValue(name)}]`;
const formatValue = (value: JsonValue | undefined): string =>
  value === undefined ? 'none' : toPlainText(JSON.stringify(value), 100);
