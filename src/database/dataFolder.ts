import { accessSync, constants, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type Clock, systemClock } from '../kernel/clock';
import { DomainError } from '../kernel/errors';
import { giveToOwner } from '../kernel/giveToOwner';
import { userIdText } from '../kernel/userIdText';
import { openFile } from './engines/sqliteConnection';
import { releaseToStart } from './reserveFile';
import { codeOf, messageOf } from './translate';

/** Makes the data folder (for this user only) if it is not there. Throws `data_folder_not_writable`. */
export function prepareDataFolder(dataDir: string): void {
  try {
    makeFolder(resolve(dataDir));
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw notWritable(dataDir, error);
  }
}

/** Level by level: Node's own recursive way never ends where a folder is there but takes no other, as /proc. */
function makeFolder(folder: string): void {
  if (existsSync(folder) || dirname(folder) === folder) return;
  makeFolder(dirname(folder));
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error; // another process was quicker
  }
}

// A lock that nobody refers to would be collected, and the folder given back, while the process lives.
const held = new Set<object>();

/** The data folder belongs to this process until `release`. */
export interface DataFolderLock {
  release(): void;
}

/**
 * Takes the data folder for this process; the operating system gives it back when the process ends in whatever way.
 * Throws `data_folder_in_use` if another process has it, `data_folder_not_writable`.
 */
export async function lockDataFolder(dataDir: string, clock: Clock = systemClock): Promise<DataFolderLock> {
  prepareDataFolder(dataDir);
  const holder = join(dataDir, 'server.pid');
  // A lock of the file system by way of SQLite, which knows how on every platform; the file stays empty.
  releaseToStart(dataDir);
  const lock = takeLock(dataDir, holder);
  writeFileSync(holder, JSON.stringify({ pid: process.pid, since: new Date(clock.now()).toISOString() }), { mode: 0o600 });
  giveToOwner(holder);
  held.add(lock);
  return {
    release: () => {
      held.delete(lock);
      try {
        rmSync(holder, { force: true });
      } catch {
        // the disk cannot be written: the lock alone decides
      } finally {
        lock.close();
      }
    },
  };
}

const LOOK_EVERY_MS = 1000;

/**
 * Calls `onLost` once when the folder's lock, or one of the other files, is moved, deleted or replaced behind the server's back: the
 * open files go on taking what is written, and nobody will find it again. Returns how to stop watching.
 */
export function watchDataFolder(dataDir: string, others: readonly string[], onLost: () => void): () => void {
  const files = ['server.lock', ...others].map((name) => resolve(dataDir, name));
  const atStart = files.map((file) => identityOf(file));
  const timer = setInterval(() => {
    if (files.every((file, index) => identityOf(file) === atStart[index])) return;
    clearInterval(timer);
    onLost();
  }, LOOK_EVERY_MS).unref();
  return () => clearInterval(timer);
}

/** Which file this is, whatever its name; undefined: there is none. One that just cannot be looked at counts as gone. */
function identityOf(file: string): string | undefined {
  try {
    const { dev, ino } = statSync(file, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    return undefined;
  }
}

/** The process (its id, or `unknown`) that has the data folder; undefined: none, or there is no such folder. Changes nothing. */
export function findDataFolderHolder(dataDir: string): string | undefined {
  const file = join(dataDir, 'server.lock');
  if (!existsSync(file)) return undefined;
  const look = openFile(file, { readOnly: true, busyTimeoutMs: 0 });
  try {
    look.prepare('select count(*) from sqlite_schema').get(); // who has the lock lets nobody read
    return undefined;
  } catch (error) {
    if (!codeOf(error).startsWith('SQLITE_BUSY')) throw error;
    return readHolder(join(dataDir, 'server.pid')).pid;
  } finally {
    look.close();
  }
}

function takeLock(dataDir: string, holder: string): { close(): void } {
  let lock: ReturnType<typeof openFile> | undefined;
  try {
    const file = join(dataDir, 'server.lock');
    lock = openFile(file, { busyTimeoutMs: 0 });
    giveToOwner(file);
    accessSync(file, constants.R_OK | constants.W_OK); // one that can only be read would be opened for reading, and not locked
    lock.exec('begin exclusive');
    return lock;
  } catch (error) {
    lock?.close();
    if (error instanceof DomainError) throw error; // of loading the engine
    throw codeOf(error).startsWith('SQLITE_BUSY') ? inUse(dataDir, holder) : notWritable(dataDir, error);
  }
}

function inUse(dataDir: string, holder: string): DomainError {
  const { pid, since } = readHolder(holder);
  return new DomainError('conflict', 'data_folder_in_use', `the data folder ${resolve(dataDir)} is used by another server (process ${pid}, since ${since}); stop that one, or give this one a folder of its own`, {
    metadata: { pid, since },
  });
}

function readHolder(holder: string): { pid: string; since: string } {
  try {
    const { pid, since } = JSON.parse(readFileSync(holder, 'utf8')) as { pid: number; since: string };
    return { pid: String(pid), since };
  } catch {
    return { pid: 'unknown', since: 'unknown' }; // it is just starting: the lock alone decides
  }
}

function notWritable(dataDir: string, error: unknown): DomainError {
  const code = codeOf(error) || messageOf(error);
  return new DomainError('conflict', 'data_folder_not_writable', `the data folder ${resolve(dataDir)} cannot be written (${code}); ${mendOf(code)}`, { cause: error });
}

function mendOf(code: string): string {
  if (['SQLITE_FULL', 'ENOSPC', 'EDQUOT'].includes(code)) return 'the disk is full: free some space';
  if (code === 'EROFS') return 'its disk is mounted so that it can only be read: see why (mount, dmesg), and mount it for writing';
  return `let the user of this program${userIdText()} read and write it, or give another folder`;
}
