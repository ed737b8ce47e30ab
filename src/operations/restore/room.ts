import { freeBytes } from '../../kernel/freeBytes';
import { noSpace } from './restoreErrors';

/** SQLite rebuilds tables in migrations, and the write-ahead log grows meanwhile. */
const ROOM_TO_WORK = 64 * 1024 * 1024;

/** Throws `restore_no_space` unless the folder's disk has so many bytes free, and what preparing a database takes beside. */
export function requireRoom(folder: string, bytes: number): void {
  const needed = bytes + ROOM_TO_WORK;
  const free = freeBytes(folder);
  if (free !== undefined && free < needed) throw noSpace(folder, needed, free);
}
