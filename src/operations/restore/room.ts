import { statfsSync } from 'node:fs';
import { noSpace } from './restoreErrors';

/** SQLite rebuilds tables in migrations, and the write-ahead log grows meanwhile. */
const ROOM_TO_WORK = 64 * 1024 * 1024;

/** Throws `restore_no_space` unless the folder's disk has so many bytes free, and what preparing a database takes beside. */
export function requireRoom(folder: string, bytes: number): void {
  const needed = bytes + ROOM_TO_WORK;
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize < needed) throw noSpace(folder, needed, bavail * bsize);
}
