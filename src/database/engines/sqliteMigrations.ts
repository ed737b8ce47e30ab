import { mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DomainError } from '../../kernel/errors';
import { formatMib, getAvailableBytes } from '../../kernel/availableBytes';
import { syncFile } from '../../kernel/syncFile';
import { syncFolder } from '../../kernel/syncFolder';
import { getCode, isCorruption, formatMessage, translateError } from '../translate';
import type { MigrationWork, MigrationSpace } from './engine';
import { sqlite } from './sqlite';
import { createSqliteKnex } from './sqliteClient';
import { openConnection, type SqliteConnection } from './sqliteConnection';
import { beginWriting } from './writeQueue';

const MAX_MIGRATION_ATTEMPTS = 500;
/**
 * How long SQLite waits for a lock. It blocks the process; the longer wait between two attempts, in beginWriting, does
 * not.
 */
const BUSY_TIMEOUT_MS = 2;
const MAX_COPIES = 3;
/** The space that a copy may need in addition to its content. */
const SPARE_BYTES = 16 * 1024 * 1024;
const TEST_COPY_PREFIX = 'migration-trial-';
const COPY_NAME = /^before-migration-.*Z-(\d{4}_\w+)\.db$/;

/** Runs the work in one transaction on a separate connection, completely or not at all. */
export async function runMigration<T>(file: string, work: MigrationWork<T>): Promise<T> {
  // Rebuilding a table would delete the rows that refer to it, so foreign keys are disabled, which is not possible
  // inside a transaction.
  const connection = openConnection(file, { busyTimeoutMs: BUSY_TIMEOUT_MS });
  try {
    connection.run('pragma foreign_keys = off');
    await beginWriting(connection, MAX_MIGRATION_ATTEMPTS);
    const result = await work(
      createSqliteKnex(async (sql, values) => connection.run(sql, values), 'inside'),
      () => checkForeignKeys(connection),
    );
    connection.run('commit');
    return result;
  } catch (error) {
    throw translateError(sqlite, error);
  } finally {
    connection.close(); // rolls back what was not committed
  }
}

/**
 * Runs the work on a temporary copy next to the file, and returns the disk space that the real migration needs: for a
 * copy of the content, the log of the changes, and the growth of the content. Throws `insufficient_space`,
 * `copy_failed`, and what the work throws.
 */
export async function runOnTestCopy(
  file: string,
  reader: SqliteConnection,
  work: MigrationWork<void>,
): Promise<MigrationSpace> {
  removeTestCopies(dirname(file));
  const size = getContentBytes(reader);
  const freeBytes = getFreeBytes(dirname(file));
  // Three times the size: the copy, the log of its changes, and its growth. A running server must not run out of space.
  if (freeBytes < 3 * size + SPARE_BYTES)
    throw insufficientSpace('to test the migrations on a copy', dirname(file), 3 * size + SPARE_BYTES, '');
  const folder = join(dirname(file), `${TEST_COPY_PREFIX}${process.pid}`);
  try {
    mkdirSync(folder, { mode: 0o700 });
    const copy = join(folder, 'plantroom.db');
    writeCopy(copy, reader, '');
    // SQLite deletes the log when the last connection is closed, so this one stays open until the log is measured.
    const logHolder = openConnection(copy, { busyTimeoutMs: BUSY_TIMEOUT_MS });
    try {
      await runMigration(copy, work);
      return {
        neededBytes: size + statSync(`${copy}-wal`).size + Math.max(0, getContentBytes(logHolder) - size) + SPARE_BYTES,
        freeBytes,
      };
    } finally {
      logHolder.close();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Copies the database into the folder `backups` next to it and returns the path of the copy. `schema`: the newest
 * migration of the database, which becomes a part of the file name. Keeps one copy of each of the newest three schemas.
 * The copy is complete and on disk, or absent. Throws `insufficient_space`, `copy_failed`.
 */
export function copyBeforeMigration(file: string, reader: SqliteConnection, schema: string, now: number): string {
  removeTestCopies(dirname(file));
  const folder = join(dirname(file), 'backups');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const name of readdirSync(folder)) {
    if (name.startsWith('before-migration-') && name.endsWith('.new')) rmSync(join(folder, name));
  }
  const neededBytes = getContentBytes(reader) + SPARE_BYTES;
  if (getFreeBytes(folder) < neededBytes)
    throw insufficientSpace('to copy the database before the migration', folder, neededBytes, NO_BACKUP_ALTERNATIVE);
  const copy = join(folder, `before-migration-${new Date(now).toISOString().replaceAll(':', '-')}-${schema}.db`);
  const temporaryFile = `${copy}.new`;
  writeCopy(temporaryFile, reader, NO_BACKUP_ALTERNATIVE);
  syncFile(temporaryFile);
  renameSync(temporaryFile, copy);
  syncFolder(folder);
  removeOldCopies(folder, copy);
  return copy;
}

/**
 * Keeps the new copy and the newest copy of each other schema, MAX_COPIES in total (the newest schemas first), and
 * removes the rest: a migration that fails at every start makes many copies of one schema, which must not replace the
 * copies of other schemas. The name of a copy contains its time and its schema.
 */
function removeOldCopies(folder: string, newCopy: string): void {
  const keptSchemas = new Set([parseSchema(basename(newCopy))]);
  for (const name of listCopiesNewestFirst(folder)) {
    if (name === basename(newCopy)) continue;
    const schema = parseSchema(name);
    if (keptSchemas.has(schema) || keptSchemas.size === MAX_COPIES) rmSync(join(folder, name));
    else keptSchemas.add(schema);
  }
}

/**
 * Lists the names of the copies: those of the newest schema first (schemas have ascending numbers), and the newest copy
 * of a schema first. So a wrong clock cannot put an old schema before a newer one.
 */
function listCopiesNewestFirst(folder: string): string[] {
  const names = readdirSync(folder).filter((name) => COPY_NAME.test(name));
  return names.toSorted((a, b) => compareDescending(parseSchema(a), parseSchema(b)) || compareDescending(a, b));
}

/** Compares texts by code units, the greatest first. */
function compareDescending(a: string, b: string): number {
  return Number(a < b) - Number(a > b);
}

/** Returns the schema in the name of a copy, for example `0004_images`; empty if the file is not a copy. */
function parseSchema(name: string): string {
  return COPY_NAME.exec(name)?.[1] ?? '';
}

/**
 * Returns the path of the newest copy with the newest of these schemas that has one; undefined if there is none.
 * `schemas`: those that this version of the program can open.
 */
export function findNewestCopy(file: string, schemas: readonly string[]): string | undefined {
  const folder = join(dirname(file), 'backups');
  try {
    const name = listCopiesNewestFirst(folder).find((candidate) => schemas.includes(parseSchema(candidate)));
    return name === undefined ? undefined : join(folder, name);
  } catch {
    return undefined; // the folder does not exist or cannot be read
  }
}

/** The size of a compact copy of the database (without free pages), in bytes. */
export function getContentBytes(reader: SqliteConnection): number {
  // The result of a pragma is one row with one column, which has the name of the pragma.
  const pragma = (name: string): number =>
    Number(Object.values(reader.getFirstRow<Record<string, number>>(`pragma ${name}`) ?? {})[0]);
  return (pragma('page_count') - pragma('freelist_count')) * pragma('page_size');
}

/**
 * Writes a compact copy of the database. `alternative`: the end of the error message, which names another option.
 * Throws `copy_failed`, and the engine's error if the database itself is corrupt.
 */
function writeCopy(copy: string, reader: SqliteConnection, alternative: string): void {
  try {
    reader.run('vacuum into ?', [copy]);
  } catch (error) {
    rmSync(copy, { force: true });
    if (isCorruption(error)) throw error; // of the database itself
    throw new DomainError(
      'unavailable',
      'copy_failed',
      `the database could not be copied to ${dirname(copy)} (${formatMessage(error)}), and nothing was changed: check that the folder has enough space and is writable${alternative}`,
      { cause: error },
    );
  }
}

/** Throws if a row refers to a row that does not exist. */
function checkForeignKeys(connection: SqliteConnection): void {
  const violations = connection.run('pragma foreign_key_check').rows as { table: string; parent: string }[];
  const [first] = violations;
  if (first) {
    throw new Error(
      `the migration left rows that refer to missing rows: ${violations.length}, the first one in ${first.table} (to ${first.parent})`,
    );
  }
}

/**
 * Removes the folders of test copies that no running process uses. The name of such a folder ends with the pid of the
 * process that created it. A folder with the pid of this process was left by an earlier process with the same pid.
 */
function removeTestCopies(folder: string): void {
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(TEST_COPY_PREFIX)) continue;
    const creatorPid = Number(name.slice(TEST_COPY_PREFIX.length));
    if (creatorPid === process.pid || !isProcessRunning(creatorPid))
      rmSync(join(folder, name), { recursive: true, force: true });
  }
}

/** Whether a process with this pid runs. */
function isProcessRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0); // signal 0 is not sent: it only checks whether the process exists
  } catch (error) {
    return getCode(error) === 'EPERM'; // it runs, but as another user
  }
}

const NO_BACKUP_ALTERNATIVE =
  '; or make a backup elsewhere, then continue without this copy: "plantroom migrate --no-backup"';

function getFreeBytes(folder: string): number {
  return getAvailableBytes(folder) ?? Infinity;
}

/**
 * Creates the error `insufficient_space`. `purpose`: what the space is for; `alternative`: the end of the message,
 * which names another option.
 */
function insufficientSpace(purpose: string, folder: string, neededBytes: number, alternative: string): DomainError {
  return new DomainError(
    'conflict',
    'insufficient_space',
    `too little disk space ${purpose}: ${formatMib(neededBytes)} are needed in ${folder}, ${formatMib(getFreeBytes(folder))} are free. Free some space there${alternative}`,
  );
}
