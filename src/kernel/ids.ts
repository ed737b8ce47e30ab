import { v7 } from 'uuid';

/** A new identifier: UUIDv7, later ones sort after earlier ones of the same process. */
export function newId(): string {
  return v7();
}

/** Whether a text can be an identifier at all; only such a one is worth a look into the database, and harmless there. */
export function isId(text: string): boolean {
  return text !== '' && text.length <= 256 && text.isWellFormed() && !/[\p{Cc}\s]/u.test(text);
}
