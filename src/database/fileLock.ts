import { accessSync, constants } from 'node:fs';
import { giveToOwner } from '../kernel/giveToOwner';
import { codeOf } from '../kernel/thrown';
import type { DataFolderLock } from './dataFolder';
import { openFile } from './engines/sqliteConnection';

/**
 * Takes a file (made where there is none) for this process; the operating system gives it back when the process ends in whatever way.
 * Undefined: another process has it. Throws the error of the file system, also where the file is another user's and can only be read, or SQLite's.
 */
export function findFileLock(file: string): DataFolderLock | undefined {
  // A lock of the file system by way of SQLite, which knows how on every platform; the file stays empty.
  const lock = openFile(file, { busyTimeoutMs: 0 });
  try {
    giveToOwner(file);
    accessSync(file, constants.R_OK | constants.W_OK); // one that can only be read would be opened for reading, and not locked
    lock.exec('begin exclusive');
  } catch (error) {
    lock.close();
    if (codeOf(error).startsWith('SQLITE_BUSY')) return undefined;
    throw error;
  }
  held.add(lock);
  return {
    release: () => {
      held.delete(lock);
      lock.close();
    },
  };
}

// A lock that nobody refers to would be collected, and the file given back, while the process lives.
const held = new Set<object>();
