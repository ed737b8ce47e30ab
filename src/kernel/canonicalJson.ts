import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { JsonValue } from './jsonValue';

/**
 * Formats a value as canonical JSON (RFC 8785): equal values have equal texts. Throws for numbers that are not finite
 * and for unpaired surrogates.
 */
export function canonicalJson(value: JsonValue): string {
  const text = canonicalize(value);
  if (text === undefined) throw new TypeError('undefined is not a JSON value');
  return text;
}

/** Returns the SHA-256 of the canonical text as 64 lower-case hex digits. */
export function canonicalHash(value: JsonValue): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex');
}

/** Checks whether two values are equal as JSON: key order is ignored, and 1 equals 1.0. */
export function isJsonEqual(left: JsonValue, right: JsonValue): boolean {
  if (typeof left !== 'object' || typeof right !== 'object') return left === right;
  return left === right || canonicalJson(left) === canonicalJson(right);
}
