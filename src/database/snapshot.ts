import { statSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../kernel/clock';
import { DomainError } from '../kernel/errors';
import { codeOf, messageOf } from '../kernel/thrown';
import { syncFile } from '../kernel/syncFile';
import type { Db } from './db';
import { databaseDamaged } from './engines/databaseDamaged';
import { dump, requireDump, requireReadable } from './engines/postgresDump';
import { openConnection } from './engines/sqliteConnection';
import { appliedMigrations } from './migrate';
import { openDatabase, type OpenDatabaseOptions } from './openDatabase';
import { isDamage } from './translate';

/** The file that a snapshot of SQLite is, and that the database itself is in the data folder. */
export const SQLITE_FILE = 'plantroom.db';
/** The file that a snapshot of PostgreSQL is: what pg_restore reads. */
export const DUMP_FILE = 'plantroom.pgdump';

/** Reads a snapshot; `schema` is its newest migration. */
export type SnapshotLook<T> = (db: Db, schema: string) => Promise<T>;

const BUSY_MS = 5000;

/**
 * Copies the database, as it is at one moment, into `folder` as SQLITE_FILE or DUMP_FILE, beside whatever is written meanwhile; what `look`
 * reads is of the same moment. Where it is SQLite it blocks the process for as long as it takes to read and write all of it. Damage is copied like
 * anything else, so the copy is looked through. Throws `database_damaged`, `pg_dump_missing`, `database_dump_failed`, `database_unreadable`, and
 * the errors of openDatabase.
 */
export async function snapshotDatabase<T>(source: OpenDatabaseOptions, folder: string, look: SnapshotLook<T>, signal?: AbortSignal): Promise<T> {
  return source.url === '' ? await copySqlite(source, folder, look) : await dumpPostgres(source, join(folder, DUMP_FILE), look, signal);
}

/** What is wrong with the structure of a snapshot of SQLite; undefined: nothing. Blocks the process while it reads all of it. Throws as openDatabase does. */
export async function findSnapshotDamage(folder: string, { log, clock = systemClock }: Pick<OpenDatabaseOptions, 'log' | 'clock'>): Promise<string | undefined> {
  const copy = await openDatabase({ url: '', dataDir: folder, readOnly: true, log, clock });
  try {
    return (await copy.checks(clock.now())).find(({ check, state }) => check === 'integrity' && state === 'fail')?.found;
  } finally {
    await copy.close();
  }
}

/** At most so many bytes is the database, and a snapshot of it. */
export async function databaseBytes({ url, dataDir }: Pick<OpenDatabaseOptions, 'url' | 'dataDir'>, { knex }: Db): Promise<number> {
  if (url === '') return ['', '-wal'].reduce((sum, end) => sum + (statSync(join(dataDir, SQLITE_FILE + end), { throwIfNoEntry: false })?.size ?? 0), 0);
  const { rows } = (await knex.raw('select pg_database_size(current_database()) as bytes')) as { rows: { bytes: number }[] };
  return Number(rows[0]?.bytes);
}

async function copySqlite<T>(source: OpenDatabaseOptions, folder: string, look: SnapshotLook<T>): Promise<T> {
  const [from, to] = [join(source.dataDir, SQLITE_FILE), join(folder, SQLITE_FILE)];
  const connection = openConnection(from, { readOnly: true, busyTimeoutMs: BUSY_MS });
  try {
    connection.run('vacuum into ?', [to]); // reads of one moment; writers go on, and their log grows until it is through
  } catch (error) {
    throw notCopied(from, to, error);
  } finally {
    connection.close();
  }
  syncFile(to);
  const damage = await findSnapshotDamage(folder, source);
  if (damage !== undefined) throw databaseDamaged(from, damage);
  const copy = await openDatabase({ ...source, dataDir: folder, readOnly: true });
  try {
    return await look(copy.db, await schemaOf(copy.db));
  } finally {
    await copy.close();
  }
}

function notCopied(from: string, to: string, error: unknown): unknown {
  const code = codeOf(error);
  if (isDamage(error)) return databaseDamaged(from, messageOf(error), error);
  // SQLite says "disk I/O error" of a limit on the size of files and of a share that went away, too.
  if (code === 'SQLITE_FULL' || code.startsWith('SQLITE_IOERR')) return new DomainError('unavailable', 'database_copy_failed', `the database could not be copied to ${to} (${code}: ${messageOf(error)}); see that its disk is there and has room`, { cause: error });
  return error;
}

async function dumpPostgres<T>(source: OpenDatabaseOptions, file: string, look: SnapshotLook<T>, signal: AbortSignal | undefined): Promise<T> {
  const database = await openDatabase(source);
  try {
    await requireDump((await database.describe()).version);
    return await database.transaction(async (db) => {
      await db.knex.raw('set transaction isolation level repeatable read');
      await db.knex.raw('set local idle_in_transaction_session_timeout = 0'); // pg_dump may take long
      const { rows } = (await db.knex.raw('select pg_export_snapshot() as snapshot')) as { rows: { snapshot: string }[] };
      await dump({ url: source.url, file, snapshot: rows[0]?.snapshot ?? '', signal });
      syncFile(file);
      await requireReadable(file, signal);
      return await look(db, await schemaOf(db));
    });
  } finally {
    await database.close();
  }
}

async function schemaOf({ knex }: Db): Promise<string> {
  return (await appliedMigrations(knex)).at(-1) ?? '';
}
