import { statSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../kernel/clock';
import { DomainError } from '../kernel/errors';
import { getCode, formatMessage } from '../kernel/errorUtils';
import { syncFile } from '../kernel/syncFile';
import type { Db } from './db';
import { databaseCorrupt } from './engines/databaseCorrupt';
import { runPgDump, assertPgDumpAvailable, assertDumpReadable } from './engines/postgresDump';
import { openConnection } from './engines/sqliteConnection';
import { listAppliedMigrations } from './migrate';
import { openDatabase, type OpenDatabaseOptions } from './openDatabase';
import { isCorruption } from './translate';

/** The file name of a SQLite snapshot, and of the database in the data folder. */
export const SQLITE_FILE = 'plantroom.db';
/** The file name of a PostgreSQL snapshot, in the format of pg_restore. */
export const DUMP_FILE = 'plantroom.pgdump';

/** Reads a snapshot; `schema` is its newest migration. */
type SnapshotReader<T> = (db: Db, schema: string) => Promise<T>;

const BUSY_TIMEOUT_MS = 5000;

/**
 * Copies the database, as it is at one moment, into `folder` as SQLITE_FILE or DUMP_FILE, while other transactions
 * write. Then calls `read` with the data of the same moment and returns its result. With SQLite, it blocks the process
 * until all data is read and written. Corruption is copied like any data, so the copy is checked. Throws
 * `database_corrupt`, `database_copy_failed`, `pg_dump_missing`, `database_dump_failed`, `database_unreadable`, and the
 * errors of openDatabase.
 */
export async function snapshotDatabase<T>(
  source: OpenDatabaseOptions,
  folder: string,
  read: SnapshotReader<T>,
  signal?: AbortSignal,
): Promise<T> {
  return source.url === ''
    ? await copySqlite(source, folder, read)
    : await dumpPostgres(source, join(folder, DUMP_FILE), read, signal);
}

/**
 * Returns structural errors of a SQLite snapshot; undefined: none. Blocks the process while it reads the whole file.
 * Throws as openDatabase does.
 */
export async function findSnapshotCorruption(
  folder: string,
  { log, clock = systemClock }: Pick<OpenDatabaseOptions, 'log' | 'clock'>,
): Promise<string | undefined> {
  const copy = await openDatabase({ url: '', dataDir: folder, readOnly: true, log, clock });
  try {
    return (await copy.checks(clock.now())).find(({ check, state }) => check === 'integrity' && state === 'fail')
      ?.found;
  } finally {
    await copy.close();
  }
}

/**
 * Returns the upper limit of the size of the database and of a snapshot, in bytes. With SQLite it includes the
 * write-ahead log, which may still be copied into the database file.
 */
export async function getDatabaseBytes(
  { url, dataDir }: Pick<OpenDatabaseOptions, 'url' | 'dataDir'>,
  { knex }: Db,
): Promise<number> {
  if (url === '') {
    return ['', '-wal'].reduce(
      (sum, suffix) => sum + (statSync(join(dataDir, SQLITE_FILE + suffix), { throwIfNoEntry: false })?.size ?? 0),
      0,
    );
  }
  const { rows } = (await knex.raw('select pg_database_size(current_database()) as bytes')) as {
    rows: { bytes: number }[];
  };
  return Number(rows[0]?.bytes);
}

/** Copies the SQLite file with `vacuum into`, checks the copy for corruption, and calls `read` with the copy. */
async function copySqlite<T>(source: OpenDatabaseOptions, folder: string, read: SnapshotReader<T>): Promise<T> {
  const from = join(source.dataDir, SQLITE_FILE);
  const to = join(folder, SQLITE_FILE);
  const connection = openConnection(from, { readOnly: true, busyTimeoutMs: BUSY_TIMEOUT_MS });
  try {
    connection.run('vacuum into ?', [to]); // reads one moment; writers continue, and their log grows until it is done
  } catch (error) {
    throw toCopyError(from, to, error);
  } finally {
    connection.close();
  }
  syncFile(to);
  const corruption = await findSnapshotCorruption(folder, source);
  if (corruption !== undefined) throw databaseCorrupt(from, corruption);
  const copy = await openDatabase({ ...source, dataDir: folder, readOnly: true });
  try {
    return await read(copy.db, await getSchema(copy.db));
  } finally {
    await copy.close();
  }
}

/** Describes an error of `vacuum into`; an error that is not about the disk or corruption is returned unchanged. */
function toCopyError(from: string, to: string, error: unknown): unknown {
  const code = getCode(error);
  if (isCorruption(error)) return databaseCorrupt(from, formatMessage(error), error);
  // SQLite also reports "disk I/O error" for a file size limit and a lost network share.
  if (code === 'SQLITE_FULL' || code.startsWith('SQLITE_IOERR')) {
    return new DomainError(
      'unavailable',
      'database_copy_failed',
      `the database could not be copied to ${to} (${code}: ${formatMessage(error)}): check that its disk is available and has enough space`,
      { cause: error },
    );
  }
  return error;
}

/**
 * Runs pg_dump on an exported snapshot of a transaction, and calls `read` in the same transaction, so that both see the
 * same moment.
 */
async function dumpPostgres<T>(
  source: OpenDatabaseOptions,
  file: string,
  read: SnapshotReader<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  const database = await openDatabase(source);
  try {
    await assertPgDumpAvailable((await database.describe()).version);
    return await database.transaction(async (db) => {
      await db.knex.raw('set transaction isolation level repeatable read');
      await db.knex.raw('set local idle_in_transaction_session_timeout = 0'); // pg_dump may take long
      const { rows } = (await db.knex.raw('select pg_export_snapshot() as snapshot')) as {
        rows: { snapshot: string }[];
      };
      await runPgDump({ url: source.url, file, snapshot: rows[0]?.snapshot ?? '', signal });
      syncFile(file);
      await assertDumpReadable(file, signal);
      return await read(db, await getSchema(db));
    });
  } finally {
    await database.close();
  }
}

/** Returns the name of the newest applied migration; empty for a new database. */
async function getSchema({ knex }: Db): Promise<string> {
  return (await listAppliedMigrations(knex)).at(-1) ?? '';
}
