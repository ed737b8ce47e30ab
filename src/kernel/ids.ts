import { v7 } from 'uuid';

/** A UUID in lower case, the form of the identifiers that newId creates. */
export const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Creates an identifier (UUIDv7): within one process, later ones sort after earlier ones. */
export function newId(): string {
  return v7();
}

/** Normalizes an identifier of this server: a UUID in upper case is the same UUID. Other texts are unchanged. */
export function normalizeId(text: string): string {
  const lowerCase = text.toLowerCase();
  return UUID.test(lowerCase) ? lowerCase : text;
}

/**
 * Checks whether a text has the format of an identifier: 1 to 256 characters without white space and control
 * characters. Other texts are never looked up in the database.
 */
export function isId(text: string): boolean {
  return text !== '' && text.length <= 256 && text.isWellFormed() && !/[\p{Cc}\s]/u.test(text);
}

const SYSTEM_ROLE = /^(?:owner|admin|operator|viewer)$/i;

/**
 * Checks whether a text is an identifier in the format of this server or the name of a system role. The audit trail
 * stores no other text of a caller.
 */
export function isServerId(text: string): boolean {
  return UUID.test(text.toLowerCase()) || SYSTEM_ROLE.test(text);
}
