import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { JsonValue } from './jsonValue';

/** The one text of a value after RFC 8785: equal values, equal texts. Throws for what jsonProblem names. */
export function canonicalJson(value: JsonValue): string {
  const text = canonicalize(value);
  if (text === undefined) throw new TypeError('undefined is not a JSON value');
  return text;
}

/** SHA-256 of the canonical text, 64 lower-case hex digits. */
export function canonicalHash(value: JsonValue): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex');
}

/** Whether two values are equal as JSON: the order of keys does not matter, 1 and 1.0 are the same. */
export function jsonEqual(one: JsonValue, other: JsonValue): boolean {
  if (typeof one !== 'object' || typeof other !== 'object') return one === other;
  return one === other || canonicalJson(one) === canonicalJson(other);
}
