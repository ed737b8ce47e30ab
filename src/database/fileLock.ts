import { accessSync, constants } from 'node:fs';
import { chownToParent } from '../kernel/chownToParent';
import { getCode } from '../kernel/errorUtils';
import type { DataFolderLock } from './dataFolder';
import { openFile } from './engines/sqliteConnection';

/**
 * Locks a file for this process, and creates the file if it is missing. The operating system releases the lock when the
 * process ends in any way. Undefined: another process holds the lock. Throws the errors of the file system and of
 * SQLite, also if this user can only read the file.
 */
export function tryLockFile(file: string): DataFolderLock | undefined {
  // A file lock by means of SQLite, which supports every platform; the file stays empty.
  const lock = openFile(file, { busyTimeoutMs: 0 });
  try {
    chownToParent(file);
    accessSync(file, constants.R_OK | constants.W_OK); // a read-only file would be opened for reading, and not locked
    lock.exec('begin exclusive');
  } catch (error) {
    lock.close();
    if (getCode(error).startsWith('SQLITE_BUSY')) return undefined;
    throw error;
  }
  heldLocks.add(lock);
  return {
    release: () => {
      heldLocks.delete(lock);
      lock.close();
    },
  };
}

// Keeps the lock referenced. Otherwise it would be garbage-collected and released while the process lives.
const heldLocks = new Set<object>();
