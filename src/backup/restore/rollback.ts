import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { lockDataFolder, openDatabase, assertRestoreComplete, SQLITE_FILE } from '../../database';
import { SwapDirectory } from './swapDirectory';
import { prepareDatabase, type PreparedDatabase } from './preparation';
import { copyInvalid, rollbackUnavailable, engineMismatch } from './restoreErrors';
import type { RestoreOptions } from './restore';
import { assertFreeSpace } from './freeSpace';

/** The result of a rollback to a copy of the database. */
export interface RollbackResult extends PreparedDatabase {
  /** When the copy was made; ISO 8601, UTC. */
  readonly createdAt: string;
  /** The new path of the previous database. */
  readonly movedTo: string;
}

const SQLITE_HEADER = 'SQLite format 3\0';
/** The file name pattern of the copies made before a migration. */
const COPY_NAME = /^before-migration-(\d{4}-\d\d-\d\dT\d\d)-(\d\d)-(\d\d\.\d{3}Z)-/;

/**
 * Whether the file is a SQLite database, like the copy made before a migration, and not a backup. Also false if it
 * cannot be read.
 */
export function isDatabaseCopy(file: string): boolean {
  try {
    const descriptor = openSync(file, 'r');
    try {
      const head = Buffer.alloc(SQLITE_HEADER.length);
      return readSync(descriptor, head) === SQLITE_HEADER.length && head.toString('latin1') === SQLITE_HEADER;
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return false; // the next reader reports the error
  }
}

/**
 * Reverts a migration: replaces the database of the data folder with the copy that was made before it, and renames the
 * previous one. Images, keys and certificates stay. Executions that are open in the copy are closed as in a restore,
 * because they may have been sent since then. A failed or killed rollback leaves the database unchanged, or prevents a
 * start until it is repeated. Throws `backup_engine_mismatch`, `copy_invalid`, `rollback_unavailable`,
 * `restore_unfinished`, `data_dir_in_use`, `insufficient_space`, `schema_version_unsupported`, `backup_corrupt`.
 */
export async function rollBackDatabase(options: RestoreOptions): Promise<RollbackResult> {
  const { file, dataDir, clock, signal } = options;
  assertRollbackPossible(options);
  if (!existsSync(join(dataDir, SQLITE_FILE)) && !SwapDirectory.isInterruptedIn(dataDir))
    throw rollbackUnavailable(dataDir);
  const lock = await lockDataFolder(dataDir, clock);
  try {
    SwapDirectory.finishInterrupted(dataDir);
    assertRestoreComplete(dataDir);
    const swapDirectory = SwapDirectory.create(dataDir, clock.now());
    try {
      const prepared = await prepareCopy(file, swapDirectory.content, options);
      signal.throwIfAborted();
      return { ...prepared, createdAt: getCreatedAt(file), movedTo: swapDirectory.swap() };
    } finally {
      swapDirectory.remove();
    }
  } finally {
    lock.release();
  }
}

/** Runs a rollback in a temporary folder and discards the result. */
export async function dryRunRollback(options: RestoreOptions): Promise<Omit<RollbackResult, 'movedTo'>> {
  assertRollbackPossible(options);
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-restore-'));
  try {
    return { ...(await prepareCopy(options.file, folder, options)), createdAt: getCreatedAt(options.file) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Throws `backup_engine_mismatch` for PostgreSQL, and `copy_invalid` if the file is the database itself. */
function assertRollbackPossible({ file, dataDir, databaseUrl }: RestoreOptions): void {
  if (databaseUrl !== '') throw engineMismatch('SQLite', true);
  if (resolve(file) === resolve(dataDir, SQLITE_FILE)) throw copyInvalid(file, 'it is the database itself');
}

/**
 * Copies the file with its write-ahead log into the folder and prepares that copy for a server. Throws `copy_invalid`
 * for a database of another program.
 */
async function prepareCopy(
  file: string,
  folder: string,
  { revokesKeys, clock, log, onProgress }: RestoreOptions,
): Promise<PreparedDatabase> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  assertFreeSpace(folder, 2 * statSync(file).size);
  onProgress('copying', 0, 0);
  for (const suffix of ['', '-wal'])
    if (existsSync(file + suffix)) copyForOwnerOnly(file + suffix, join(folder, SQLITE_FILE + suffix));
  const database = await openDatabase({ url: '', dataDir: folder, clock, log });
  try {
    const { schema } = await database.describe();
    if (schema === '') throw copyInvalid(file, 'it has no schema of Plantroom');
    return await prepareDatabase({
      database,
      manifest: { schema, createdAt: getCreatedAt(file) },
      revokesKeys,
      clock,
      log,
      onStep: (step) => onProgress(step, 0, 0),
    });
  } finally {
    await database.close();
  }
}

/** Copies a file so that only this user can read it. */
function copyForOwnerOnly(from: string, to: string): void {
  copyFileSync(from, to);
  chmodSync(to, 0o600);
}

/**
 * Returns the time in the name of the copy, because copying the file may have changed its modification time; otherwise
 * the modification time. ISO 8601, UTC.
 */
function getCreatedAt(file: string): string {
  const match = COPY_NAME.exec(basename(file));
  return match ? `${match[1]}:${match[2]}:${match[3]}` : statSync(file).mtime.toISOString();
}
