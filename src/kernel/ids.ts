import { v7 } from 'uuid';

/** A new identifier: UUIDv7, later ones sort after earlier ones of the same process. */
export function newId(): string {
  return v7();
}

/** Whether a text can be an identifier at all; only such a one is worth a look into the database, and harmless there. */
export function isId(text: string): boolean {
  return text !== '' && text.length <= 256 && text.isWellFormed() && !/[\p{Cc}\s]/u.test(text);
}

const GIVEN = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$|^(?:owner|admin|operator|viewer)$/i;

/** Whether a text is an identifier as this server gives them out, or the name of a system role: of what a caller writes, nothing else gets into the audit trail. */
export function isGivenId(text: string): boolean {
  return GIVEN.test(text);
}
