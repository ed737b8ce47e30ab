import { join } from 'node:path';
import { type Clock, systemClock } from '../kernel/clock';
import { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import { Database } from './database';
import { prepareDataFolder } from './dataFolder';
import { refuseEmptied } from './emptied';
import type { Engine } from './engines/engine';
import { PostgresEngine } from './engines/postgresEngine';
import { SqliteEngine } from './engines/sqliteEngine';
import { refuseHalfRestored, refuseMarked } from './halfRestored';
import { knownMigrations } from './migrate';
import { MIGRATIONS, type Migration } from './migrations';

/** Which database, and how to open it. */
export interface OpenDatabaseOptions {
  /** Empty: the SQLite file `plantroom.db` in the data folder; else `postgres://user:password@host:port/database`. */
  readonly url: string;
  readonly dataDir: string;
  readonly log: Logger;
  readonly clock?: Clock;
  /** Refuses every write; for commands that only look. */
  readonly readOnly?: boolean;
  /** Opens a database of PostgreSQL that a restore has begun on, too; for that restore alone. */
  readonly isRestoring?: boolean;
  /** The most connections to PostgreSQL at a time; 10 if not given. */
  readonly poolSize?: number;
  /** Other migrations than the program's; for tests of migrations. */
  readonly migrations?: readonly Migration[];
}

/** Opens the database without migrating it. Throws a DomainError that says what is wrong: `schema_too_new`, `database_unreadable`, `database_unavailable`, ... */
export async function openDatabase(options: OpenDatabaseOptions): Promise<Database> {
  const { log, clock = systemClock, migrations = MIGRATIONS } = options;
  refuseHalfRestored(options.dataDir, options.url !== '');
  const engine = options.url === '' ? openSqlite(options, clock) : await openPostgres(options);
  try {
    await knownMigrations(engine, migrations);
  } catch (error) {
    await engine.close();
    throw error;
  }
  return new Database(engine, { dataDir: options.dataDir, clock, log, migrations });
}

function openSqlite({ dataDir, log, readOnly = false }: OpenDatabaseOptions, clock: Clock): Engine {
  if (!readOnly) prepareDataFolder(dataDir);
  const file = join(dataDir, 'plantroom.db');
  refuseEmptied(dataDir, file);
  return new SqliteEngine({ file, clock, log, readOnly });
}

async function openPostgres({ url, log, readOnly = false, isRestoring = false, poolSize = 10 }: OpenDatabaseOptions): Promise<Engine> {
  if (!/^postgres(ql)?:$/.test(URL.parse(url)?.protocol ?? '')) {
    throw new DomainError('invalid_argument', 'database_url_invalid', 'the database URL is not understood; leave it empty for a SQLite file, or give postgres://user:password@host:port/database');
  }
  const engine = new PostgresEngine({ url, poolSize, readOnly, log });
  try {
    await engine.check();
    if (!isRestoring) await refuseMarked(engine.db.knex, (await engine.facts()).location);
  } catch (error) {
    await engine.close();
    throw error;
  }
  return engine;
}
