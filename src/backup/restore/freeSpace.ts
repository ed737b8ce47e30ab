import { getAvailableBytes } from '../../kernel/availableBytes';
import { insufficientSpace } from './restoreErrors';

/** SQLite rebuilds tables in migrations, and the write-ahead log grows during that time. */
const WORKING_SPACE_BYTES = 64 * 1024 * 1024;

/**
 * Throws `insufficient_space` unless the folder's disk has this many free bytes, plus the space for preparing a
 * database.
 */
export function assertFreeSpace(folder: string, bytes: number): void {
  const needed = bytes + WORKING_SPACE_BYTES;
  const free = getAvailableBytes(folder);
  if (free !== undefined && free < needed) throw insufficientSpace(folder, needed, free);
}
