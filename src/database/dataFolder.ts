import { accessSync, constants, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type Clock, systemClock } from '../kernel/clock';
import { DomainError } from '../kernel/errors';
import { chownToParent } from '../kernel/chownToParent';
import { formatUserId } from '../kernel/formatUserId';
import { openFile } from './engines/sqliteConnection';
import { releaseForStartup } from './diskReserve';
import { getCode, formatMessage } from './translate';

/** Creates the data folder (for this user only) if it does not exist. Throws `data_dir_not_writable`. */
export function prepareDataFolder(dataDir: string): void {
  try {
    createFolder(resolve(dataDir));
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw notWritable(dataDir, error);
  }
}

/**
 * Creates the folder and its missing parents, one level at a time: the recursive mkdir of Node.js never returns for a
 * folder that exists but accepts no subfolder, such as /proc.
 */
function createFolder(folder: string): void {
  if (existsSync(folder) || dirname(folder) === folder) return;
  createFolder(dirname(folder));
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (getCode(error) !== 'EEXIST') throw error; // another process created it first
  }
}

// Keeps the lock referenced. Otherwise it would be garbage-collected and the folder released while the process lives.
const heldLocks = new Set<object>();

/** The data folder belongs to this process until `release` is called. */
export interface DataFolderLock {
  release(): void;
}

/**
 * Locks the data folder for this process. The operating system releases the lock when the process ends in any way.
 * `clock` gives the start time that the message of another server shows. Throws `data_dir_in_use` if another process
 * holds the lock, and `data_dir_not_writable`.
 */
export async function lockDataFolder(dataDir: string, clock: Clock = systemClock): Promise<DataFolderLock> {
  prepareDataFolder(dataDir);
  const holderFile = join(dataDir, 'server.pid');
  releaseForStartup(dataDir); // on a full disk the lock file could not be created
  const lock = acquireLock(dataDir, holderFile);
  writeFileSync(holderFile, JSON.stringify({ pid: process.pid, since: new Date(clock.now()).toISOString() }), {
    mode: 0o600,
  });
  chownToParent(holderFile);
  heldLocks.add(lock);
  return {
    release: () => {
      heldLocks.delete(lock);
      try {
        rmSync(holderFile, { force: true });
      } catch {
        // the disk cannot be written: only the lock decides
      } finally {
        lock.close();
      }
    },
  };
}

const CHECK_INTERVAL_MS = 1000;

/**
 * Calls `onLost` once when the lock file of the folder, or one of `otherFiles` (names in the folder, for example
 * `plantroom.db`), is moved, deleted or replaced by another program. The open files still accept writes then, but these
 * would be lost. Returns a function that stops watching.
 */
export function watchDataFolder(dataDir: string, otherFiles: readonly string[], onLost: () => void): () => void {
  const files = ['server.lock', ...otherFiles].map((name) => resolve(dataDir, name));
  const initialIdentities = files.map((file) => findIdentity(file));
  const timer = setInterval(() => {
    if (files.every((file, index) => findIdentity(file) === initialIdentities[index])) return;
    clearInterval(timer);
    onLost();
  }, CHECK_INTERVAL_MS).unref();
  return () => clearInterval(timer);
}

/**
 * Identifies the file independent of its name, by device and inode number; undefined: the file does not exist, or
 * cannot be read at the moment.
 */
function findIdentity(file: string): string | undefined {
  try {
    const { dev, ino } = statSync(file, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    return undefined;
  }
}

/**
 * Returns the process (its id, or `unknown`) that holds the data folder; undefined: no process, or no such folder.
 * Changes nothing.
 */
export function findDataFolderHolder(dataDir: string): string | undefined {
  const file = join(dataDir, 'server.lock');
  if (!existsSync(file)) return undefined;
  const probe = openFile(file, { readOnly: true, busyTimeoutMs: 0 });
  try {
    probe.prepare('select count(*) from sqlite_schema').get(); // the holder of the lock does not allow reads
    return undefined;
  } catch (error) {
    if (!getCode(error).startsWith('SQLITE_BUSY')) throw error;
    return readHolder(join(dataDir, 'server.pid')).pid;
  } finally {
    probe.close();
  }
}

/**
 * Opens `server.lock` and holds an exclusive SQLite transaction on it until `close` is called: a file lock that works
 * on every platform; the file stays empty. `holderFile` names the holder for the error. Throws `data_dir_in_use`,
 * `data_dir_not_writable`.
 */
function acquireLock(dataDir: string, holderFile: string): { close(): void } {
  let lock: ReturnType<typeof openFile> | undefined;
  try {
    const file = join(dataDir, 'server.lock');
    lock = openFile(file, { busyTimeoutMs: 0 });
    chownToParent(file);
    accessSync(file, constants.R_OK | constants.W_OK); // a read-only file would be opened for reading, and not locked
    lock.exec('begin exclusive');
    return lock;
  } catch (error) {
    lock?.close();
    if (error instanceof DomainError) throw error; // while loading the engine
    throw getCode(error).startsWith('SQLITE_BUSY') ? dataDirInUse(dataDir, holderFile) : notWritable(dataDir, error);
  }
}

/**
 * Creates the error `data_dir_in_use`, which names the process that holds the lock, and when that process acquired it.
 */
function dataDirInUse(dataDir: string, holderFile: string): DomainError {
  const { pid, since } = readHolder(holderFile);
  return new DomainError(
    'conflict',
    'data_dir_in_use',
    `the data folder ${resolve(dataDir)} is used by another server (process ${pid}, since ${since}): stop that server first, or choose another data folder with --data-dir`,
    {
      metadata: { pid, since },
    },
  );
}

/**
 * Reads which process holds the lock, and since when (ISO 8601). Both are `unknown` while that process is still
 * starting, because it writes the file after it has the lock.
 */
function readHolder(holderFile: string): { pid: string; since: string } {
  try {
    const { pid, since } = JSON.parse(readFileSync(holderFile, 'utf8')) as { pid: number; since: string };
    return { pid: String(pid), since };
  } catch {
    return { pid: 'unknown', since: 'unknown' }; // the other process is starting
  }
}

/** Creates the error `data_dir_not_writable`, which names the error code of the system and how to fix it. */
function notWritable(dataDir: string, error: unknown): DomainError {
  const code = getCode(error) || formatMessage(error);
  return new DomainError(
    'conflict',
    'data_dir_not_writable',
    `the data folder ${resolve(dataDir)} cannot be written (${code}): ${getAdvice(code)}`,
    { cause: error },
  );
}

/** Returns how to fix a write error with this code, as the last part of a message. */
function getAdvice(code: string): string {
  if (['SQLITE_FULL', 'ENOSPC', 'EDQUOT'].includes(code)) return 'the disk is full: free some space';
  if (code === 'EROFS') return 'its disk is mounted read-only. Check why (mount, dmesg), and mount it for writing';
  return `let the user of this program${formatUserId()} read and write it, or choose another folder`;
}
