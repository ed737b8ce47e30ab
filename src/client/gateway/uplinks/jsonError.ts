/** An error in a value that is to be sent as JSON. */
export interface JsonError {
  /** The path of the error, for example `.a.b[3]`; empty for the value itself. */
  readonly path: string;
  /** What would be valid. */
  readonly expected: string;
}

const MAX_DEPTH = 32;
const MAX_BYTES = 64 * 1024;
const EXPECTED_TYPES = 'must be a JSON value: null, a number, a string, a boolean, a list or a plain object of these';
// The maximum JSON length of a number, of a character in a string, and of `true`, `false` and `null`.
const MAX_NUMBER_LENGTH = 25;
const MAX_CHARACTER_LENGTH = 6;
const MAX_WORD_LENGTH = 5;
const BRACES = 2;
const QUOTES = 2;
// The quotes of a key, its colon and the comma after its value.
const KEY_OVERHEAD = 4;
const COMMA = 1;

/** An upper bound of the size of the values as JSON. */
interface Measure {
  bytes: number;
}

/**
 * Finds the first reason why the server would reject a value as the JSON of an uplink: it must be an object of JSON
 * values, at most 32 levels deep, at most 64 KiB. Returns undefined if the value is valid.
 */
export function findJsonError(value: unknown): JsonError | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { path: '', expected: 'must be an object' };
  const measure = { bytes: 0 };
  const error = findError(value, 1, measure);
  if (error || measure.bytes <= MAX_BYTES) return error;
  const bytes = Buffer.byteLength(JSON.stringify(value));
  return bytes > MAX_BYTES
    ? { path: '', expected: `must be at most ${MAX_BYTES} bytes as JSON (got ${bytes})` }
    : undefined;
}

/**
 * Finds the first error in a value at this depth, and adds the upper limit of its JSON size to `measure`. Counting is
 * cheaper than formatting, so the exact size is only computed if the limit is too large.
 */
function findError(value: unknown, depth: number, measure: Measure): JsonError | undefined {
  if (depth > MAX_DEPTH) return { path: '', expected: `must nest at most ${MAX_DEPTH} levels` };
  if (typeof value === 'object' && value !== null) return findErrorInObject(value, depth, measure);
  const bytes = getMaxSize(value);
  if (bytes === undefined) return { path: '', expected: EXPECTED_TYPES };
  measure.bytes += bytes;
  return undefined;
}

/** Returns an upper bound of the JSON size of a simple value; undefined if it is not a JSON value. */
function getMaxSize(value: unknown): number | undefined {
  if (typeof value === 'string') return QUOTES + value.length * MAX_CHARACTER_LENGTH;
  if (typeof value === 'number') return MAX_NUMBER_LENGTH; // the server refuses the value of a path that is not finite
  return value === null || typeof value === 'boolean' ? MAX_WORD_LENGTH : undefined;
}

/**
 * Finds the first error in an object or a list. Only plain objects are JSON: a Date or a class instance is an error.
 */
function findErrorInObject(value: object, depth: number, measure: Measure): JsonError | undefined {
  measure.bytes += BRACES;
  if (Array.isArray(value)) return findErrorInItems(value, depth, measure);
  const prototype: unknown = Object.getPrototypeOf(value);
  // A plain object of another realm has another Object.prototype, which also has no prototype.
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) return { path: '', expected: EXPECTED_TYPES };
  for (const key of Object.keys(value)) {
    if (key === '__proto__') return { path: '', expected: 'must not have a field `__proto__`' };
    measure.bytes += KEY_OVERHEAD + key.length * MAX_CHARACTER_LENGTH;
    const error = findError((value as Readonly<Record<string, unknown>>)[key], depth + 1, measure);
    if (error) return { ...error, path: `.${key}${error.path}` };
  }
  return undefined;
}

/** Finds the first error in a list. */
function findErrorInItems(items: readonly unknown[], depth: number, measure: Measure): JsonError | undefined {
  for (let index = 0; index < items.length; index += 1) {
    measure.bytes += COMMA;
    const error = findError(items[index], depth + 1, measure);
    if (error) return { ...error, path: `[${index}]${error.path}` };
  }
  return undefined;
}
