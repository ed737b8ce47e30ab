import { truncateForDisplay } from './truncate';

/**
 * The encoded string field 1 with the value `__proto__` (the bytes are the tag 0x0a, the length 9 and the text): a
 * Struct holds it as a key, and ts-proto silently drops it.
 */
export const PROTO_KEY = Buffer.from('\n\t__proto__');

/** A JSON value. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;

/** A JSON object. Only its own properties count. */
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

/** Maximum depth of a value that is stored or sent; a scalar has depth 1. */
export const MAX_DEPTH = 32;

/** Maximum length of a key in a message, in characters. */
const MAX_SHOWN_KEY_LENGTH = 200;

const UNPAIRED_SURROGATE = /\p{Surrogate}/u;

/** Checks whether a value is an object: neither a list nor null. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Checks whether a JSON value is an object: neither a list nor null. */
export function isJsonObject(value: JsonValue): value is JsonObject {
  return isObject(value);
}

/** Checks whether a text can be encoded as UTF-8: it has no unpaired surrogates. */
export function isWellFormed(text: string): boolean {
  return !UNPAIRED_SURROGATE.test(text);
}

/** Returns the depth of a value. Counting stops at `limit` + 1, to limit the cost of a hostile value. */
export function getJsonDepth(value: JsonValue, limit: number = MAX_DEPTH): number {
  if (typeof value !== 'object' || value === null || limit === 0) return 1;
  let deepest = 0;
  for (const inner of Object.values(value)) deepest = Math.max(deepest, getJsonDepth(inner, limit - 1));
  return deepest + 1;
}

/**
 * Returns why a value cannot be stored and sent as JSON unchanged, as the end of a sentence about it; undefined if it
 * can.
 */
export function findJsonProblem(value: unknown, depthLeft: number = MAX_DEPTH): string | undefined {
  if (depthLeft === 0) return `is nested deeper than ${MAX_DEPTH} levels: make it flatter`;
  if (typeof value !== 'object' || value === null) return findScalarProblem(value);
  for (const [key, inner] of Object.entries(value)) {
    const keyProblem = findKeyProblem(key);
    const problem = keyProblem
      ? `has the key ${JSON.stringify(truncateForDisplay(key, MAX_SHOWN_KEY_LENGTH))}, which ${keyProblem}`
      : findJsonProblem(inner, depthLeft - 1);
    if (problem) return problem;
  }
  return undefined;
}

/** Returns why an object must not have this key, as the end of a sentence about the key; undefined if it may. */
export function findKeyProblem(key: string): string | undefined {
  if (key === '__proto__') return 'is not allowed: use another name';
  return isWellFormed(key) ? undefined : 'has an unpaired surrogate: use well-formed Unicode text';
}

/** Returns why a value without members cannot be stored as JSON; undefined if it can. */
function findScalarProblem(value: unknown): string | undefined {
  if (typeof value === 'number')
    return Number.isFinite(value) ? undefined : 'contains a number that is not finite: use a finite one';
  if (typeof value === 'string')
    return isWellFormed(value) ? undefined : 'contains an unpaired surrogate: use well-formed Unicode text';
  if (value === null || typeof value === 'boolean') return undefined;
  return 'contains something that is not a JSON value: use null, true, false, a number, a string, a list or an object';
}

/** Returns the value at a path; undefined if there is none. Only own properties and list items count. */
export function getValueAtPath(
  scope: JsonValue | undefined,
  steps: readonly (string | number)[],
): JsonValue | undefined {
  let value = scope;
  for (const step of steps) {
    if (typeof value !== 'object' || value === null) return undefined;
    // A list has no named values: `length`, for example, is not one.
    const fitsContainer = Array.isArray(value) === (typeof step === 'number');
    if (!fitsContainer || !Object.hasOwn(value, step)) return undefined;
    value = (value as Readonly<Record<string | number, JsonValue>>)[step];
  }
  return value;
}
