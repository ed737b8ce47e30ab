import { v7 } from 'uuid';

/** A new identifier: UUIDv7, later ones sort after earlier ones of the same process. */
export function newId(): string {
  return v7();
}
