/** What is wrong with a value that is to travel as JSON. */
export interface JsonFault {
  /** Where: `.a.b[3]`, empty for the value itself. */
  readonly path: string;
  /** What would be right. */
  readonly right: string;
}

const DEEPEST = 32;
const MOST_BYTES = 64 * 1024;
const RIGHT = 'must be a value that JSON has: null, a finite number, a string, a boolean, a list or a plain object of them';
// What a number may take as JSON, and what a character of a string may take at most.
const LONGEST_NUMBER = 25;
const LONGEST_CHARACTER = 6;
const LONGEST_WORD = 5;
const BRACES = 2;

/** Counts at least as many bytes as the values have as JSON. */
interface Measure {
  bytes: number;
}

/** What makes a value none that the server takes as the JSON of an uplink: its kinds of values, at most 32 levels, at most 64 KiB. */
export function findJsonFault(value: unknown): JsonFault | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { path: '', right: 'must be an object' };
  const measure = { bytes: 0 };
  const fault = faultOf(value, 1, measure);
  if (fault || measure.bytes <= MOST_BYTES) return fault;
  const bytes = Buffer.byteLength(JSON.stringify(value));
  return bytes > MOST_BYTES ? { path: '', right: `must be at most ${MOST_BYTES} bytes as JSON, and is ${bytes}` } : undefined;
}

function faultOf(value: unknown, depth: number, measure: Measure): JsonFault | undefined {
  if (depth > DEEPEST) return { path: '', right: `must nest at most ${DEEPEST} levels` };
  if (typeof value === 'object' && value !== null) return faultOfParts(value, depth, measure);
  const bytes = findBytes(value);
  if (bytes === undefined) return { path: '', right: RIGHT };
  measure.bytes += bytes;
  return undefined;
}

/** At least as many as a simple value takes; undefined: JSON does not have it. */
function findBytes(value: unknown): number | undefined {
  if (typeof value === 'string') return 2 + value.length * LONGEST_CHARACTER;
  if (typeof value === 'number') return Number.isFinite(value) ? LONGEST_NUMBER : undefined;
  return value === null || typeof value === 'boolean' ? LONGEST_WORD : undefined;
}

function faultOfParts(value: object, depth: number, measure: Measure): JsonFault | undefined {
  measure.bytes += BRACES;
  if (Array.isArray(value)) return faultOfItems(value, depth, measure);
  const prototype: unknown = Object.getPrototypeOf(value);
  // A plain object of another realm has another Object.prototype, above which there is nothing either.
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) return { path: '', right: RIGHT };
  for (const key of Object.keys(value)) {
    if (key === '__proto__') return { path: '', right: 'may have no member `__proto__`' };
    measure.bytes += 4 + key.length * LONGEST_CHARACTER;
    const fault = faultOf((value as Readonly<Record<string, unknown>>)[key], depth + 1, measure);
    if (fault) return { ...fault, path: `.${key}${fault.path}` };
  }
  return undefined;
}

function faultOfItems(items: readonly unknown[], depth: number, measure: Measure): JsonFault | undefined {
  for (let at = 0; at < items.length; at += 1) {
    measure.bytes += 1;
    const fault = faultOf(items[at], depth + 1, measure);
    if (fault) return { ...fault, path: `[${at}]${fault.path}` };
  }
  return undefined;
}
