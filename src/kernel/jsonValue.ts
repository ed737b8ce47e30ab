import { shortened } from './shortened';

/** A string field 1 that reads `__proto__`: so a Struct holds it as a key, and ts-proto drops it without a word. */
export const PROTO_KEY = Buffer.from('\n\t__proto__');

/** A value that JSON can hold. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;

/** An object of JSON. Only its own properties count. */
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

/** The greatest depth of a value that is stored or sent; a scalar has depth 1. */
export const LARGEST_DEPTH = 32;

const HALF_A_PAIR = /\p{Surrogate}/u;

/** Whether a value is an object of JSON: no list, not null. */
export function isJsonObject(value: JsonValue): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether a text can be written as UTF-8: every surrogate is one of a pair. */
export function isWellFormed(text: string): boolean {
  return !HALF_A_PAIR.test(text);
}

/** The depth of a value; counting ends one above `limit`, so that a hostile value costs no more. */
export function jsonDepth(value: JsonValue, limit: number = LARGEST_DEPTH): number {
  if (typeof value !== 'object' || value === null || limit === 0) return 1;
  let deepest = 0;
  for (const inner of Object.values(value)) deepest = Math.max(deepest, jsonDepth(inner, limit - 1));
  return deepest + 1;
}

/** Why a value cannot be kept as JSON and sent unchanged, as the end of a sentence about it; undefined when it can. */
export function jsonProblem(value: unknown, depthLeft: number = LARGEST_DEPTH): string | undefined {
  if (depthLeft === 0) return `is nested deeper than ${LARGEST_DEPTH} levels; make it flatter`;
  if (typeof value !== 'object' || value === null) return scalarProblem(value);
  for (const [key, inner] of Object.entries(value)) {
    const wrongKey = keyProblem(key);
    const problem = wrongKey ? `holds the key ${JSON.stringify(shortened(key, 200))}, which ${wrongKey}` : jsonProblem(inner, depthLeft - 1);
    if (problem) return problem;
  }
  return undefined;
}

/** Why an object may not have this key, as the end of a sentence about the key; undefined when it can. */
export function keyProblem(key: string): string | undefined {
  if (key === '__proto__') return 'would get lost on the way; choose another';
  return isWellFormed(key) ? undefined : 'has half of a surrogate pair; give well-formed Unicode text';
}

function scalarProblem(value: unknown): string | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : 'holds a number that is not finite; give a finite one';
  if (typeof value === 'string') return isWellFormed(value) ? undefined : 'holds half of a surrogate pair; give well-formed Unicode text';
  if (value === null || typeof value === 'boolean') return undefined;
  return 'holds something that is not a JSON value; give null, true, false, a number, a text, a list or an object';
}

/** The value at a path; undefined if there is none. Only own properties and items count. */
export function valueAt(scope: JsonValue | undefined, steps: readonly (string | number)[]): JsonValue | undefined {
  let value = scope;
  for (const step of steps) {
    if (typeof value !== 'object' || value === null) return undefined;
    // A name is no way into a list: `length` is not a value of it.
    if (Array.isArray(value) !== (typeof step === 'number') || !Object.hasOwn(value, step)) return undefined;
    value = (value as Readonly<Record<string | number, JsonValue>>)[step];
  }
  return value;
}
