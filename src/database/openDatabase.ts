import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Clock, systemClock } from '../kernel/clock';
import { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import { Database } from './database';
import { prepareDataFolder } from './dataFolder';
import { assertNoDataLoss } from './dataLoss';
import type { Engine } from './engines/engine';
import { PostgresEngine } from './engines/postgresEngine';
import { SqliteEngine } from './engines/sqliteEngine';
import { assertRestoreComplete, assertNoRestoreMark } from './unfinishedRestore';
import { loadKnownMigrations } from './migrate';
import { MIGRATIONS, type Migration } from './migrations';

/** The database to open, and how. */
export interface OpenDatabaseOptions {
  /**
   * Empty: the SQLite file `plantroom.db` in the data folder; otherwise `postgres://user:password@host:port/database`.
   */
  readonly url: string;
  readonly dataDir: string;
  readonly log: Logger;
  readonly clock?: Clock;
  /** Rejects every write; for commands that only read. */
  readonly readOnly?: boolean;
  /** SQLite: fails if there is no database instead of creating one. */
  readonly mustExist?: boolean;
  /** SQLite: opens the remains of a database that has lost data; for a server whose administrator accepted the loss. */
  readonly acceptsDataLoss?: boolean;
  /** Also opens a PostgreSQL database with an unfinished restore; for that restore only. */
  readonly isRestoring?: boolean;
  /** The maximum number of connections to PostgreSQL; 10 by default. */
  readonly poolSize?: number;
  /** PostgreSQL: how long the lease of a server lasts without a renewal, in milliseconds; 10,000 by default. */
  readonly leaseMs?: number;
  /** Other migrations than the program's; for tests of migrations. */
  readonly migrations?: readonly Migration[];
}

/**
 * Opens the database without migrating it. Throws a DomainError: `schema_version_unsupported`, `database_not_found`,
 * `database_unreadable`, `database_unavailable`, ...
 */
export async function openDatabase(options: OpenDatabaseOptions): Promise<Database> {
  const { log, clock = systemClock, migrations = MIGRATIONS } = options;
  assertRestoreComplete(options.dataDir, options.url !== '');
  const engine = options.url === '' ? openSqlite(options, clock) : await openPostgres(options);
  try {
    await loadKnownMigrations(engine, migrations);
  } catch (error) {
    await engine.close();
    throw error;
  }
  return new Database(engine, { dataDir: options.dataDir, clock, log, migrations });
}

/**
 * Opens the SQLite file, after checking that no data is missing. Throws `database_not_found`, `database_missing`,
 * `database_log_missing`, `database_corrupt`.
 */
function openSqlite(options: OpenDatabaseOptions, clock: Clock): Engine {
  const { dataDir, log, readOnly = false, mustExist = false, acceptsDataLoss = false } = options;
  const file = join(dataDir, 'plantroom.db');
  assertNoDataLoss({ dataDir, file, acceptsDataLoss, log });
  if (mustExist && !existsSync(file)) throw databaseNotFound(dataDir);
  if (!readOnly) prepareDataFolder(dataDir);
  return new SqliteEngine({ file, clock, log, readOnly });
}

/**
 * Connects to PostgreSQL, after checking the URL. Throws `database_url_invalid`, `restore_unfinished`, and the errors
 * of `PostgresEngine.assertUsable`.
 */
async function openPostgres({
  url,
  log,
  readOnly = false,
  isRestoring = false,
  poolSize = 10,
  leaseMs = 10_000,
}: OpenDatabaseOptions): Promise<Engine> {
  if (!/^postgres(ql)?:$/.test(URL.parse(url)?.protocol ?? '')) {
    throw new DomainError(
      'invalid_argument',
      'database_url_invalid',
      'invalid database URL: leave it empty for a SQLite file, or set postgres://user:password@host:port/database',
    );
  }
  const engine = new PostgresEngine({ url, poolSize, readOnly, leaseMs, log });
  try {
    await engine.assertUsable();
    if (!isRestoring) await assertNoRestoreMark(engine.db.knex, (await engine.describe()).location);
  } catch (error) {
    await engine.close();
    throw error;
  }
  return engine;
}

/** Creates the error `database_not_found`. */
function databaseNotFound(dataDir: string): DomainError {
  const solutions = 'name the folder of the server with --data-dir (PLANTROOM_DATA_DIR), or start the server once';
  return new DomainError(
    'not_found',
    'database_not_found',
    `there is no database in ${resolve(dataDir)}: ${solutions}`,
  );
}
