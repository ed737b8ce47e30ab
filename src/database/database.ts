import type { Clock } from '../kernel/clock';
import type { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import { DatabaseTimes } from './databaseTimes';
import type { Db } from './db';
import { DiskWatch } from './diskWatch';
import type { Dialect } from './engines/dialect';
import type { Engine, EngineCheck, EngineFacts } from './engines/engine';
import { appliedMigrations, migrateDown, migrateUp, tryMigrations, type MigrationContext, type MigrationReport, type TrialReport } from './migrate';
import { MIGRATIONS, type Migration } from './migrations';

/** What `doctor` and `version` say about the database and its schema. */
export interface DatabaseFacts extends EngineFacts {
  /** The newest migration that is applied; empty for a new database. */
  readonly schema: string;
  /** Migrations that this program has and the database has not. */
  readonly pending: readonly string[];
}

/** The open database. */
export class Database {
  /** Outside a transaction: reads see committed data, a write is a transaction of its own. */
  readonly db: Db;
  readonly dialect: Dialect;
  readonly times = new DatabaseTimes();
  /** Whether its disk takes what is written; of PostgreSQL's own disk it knows what PostgreSQL says. */
  readonly disk: DiskWatch;
  private readonly migrationContext: MigrationContext;

  constructor(
    private readonly engine: Engine,
    { dataDir, clock, log, migrations = MIGRATIONS }: { readonly dataDir: string; readonly clock: Clock; readonly log: Logger; readonly migrations?: readonly Migration[] },
  ) {
    this.db = this.times.timed(engine.db);
    this.dialect = engine.dialect;
    this.migrationContext = { engine, clock, log, migrations };
    this.disk = new DiskWatch({ dataDir, log, reusableBytes: () => engine.reusableBytes(), takesWrites: async () => await engine.takesWrites() });
    engine.watch((error) => this.disk.failed(error));
  }

  /**
   * Keeps other servers off this database until `close`, and looks whether it is whole. Throws `database_in_use`, `database_damaged`. `onLost`:
   * it could not be kept, another server may serve by now, or damage was found, so this one has to stop. For a server only: commands work beside it.
   */
  async own(onLost: (error: DomainError) => void): Promise<void> {
    await this.engine.own(onLost);
  }

  /**
   * Runs the work in one transaction and resolves when it is on disk. Only database work inside, on the `db` that is handed in;
   * no network, no timers. It may run more than once on PostgreSQL, so it changes nothing outside but by `afterCommit`.
   * Throws what the work throws, and `database_unavailable`: nothing was stored then, unless the error is a CommitUnknown.
   */
  async transaction<T>(work: (db: Db) => Promise<T>): Promise<T> {
    return await this.times.transaction(async (timed) => await this.engine.transaction(timed), work);
  }

  /** As `transaction`, but resolves as soon as whatever is stored later cannot be on disk without it: on SQLite that does not wait for the disk. */
  async transactionAhead<T>(work: (db: Db) => Promise<T>): Promise<T> {
    return await this.times.transaction(async (timed) => await this.engine.transaction(timed, true), work);
  }

  /**
   * Brings the schema to this program's: all of it, or nothing. A SQLite file is copied aside before, unless `makesCopy` is false. Throws
   * `schema_too_new`, `no_room_for_copy`, `migration_failed`.
   */
  async migrate(makesCopy = true): Promise<MigrationReport> {
    const report = await migrateUp(this.migrationContext, makesCopy);
    for (const message of await this.engine.warnings()) this.migrationContext.log.warn({ message }, 'database.advice');
    return report;
  }

  /** Tries out what `migrate` would do, and changes nothing. Throws `schema_too_new`, `no_room_for_copy`. */
  async tryMigrations(): Promise<TrialReport> {
    return await tryMigrations(this.migrationContext);
  }

  /** Undoes every migration after `name`, newest first; all of them for an empty name. Returns their names. */
  async migrateDown(name: string): Promise<string[]> {
    return await migrateDown(this.migrationContext, name);
  }

  /** Throws `database_unavailable` if the database does not answer. */
  async ping(): Promise<void> {
    await this.db.all({ name: 'database.ping', sql: () => 'select 1' }, []);
  }

  /** Facts for people; never a secret. */
  async describe(): Promise<DatabaseFacts> {
    const applied = await appliedMigrations(this.db.knex);
    const pending = this.migrationContext.migrations.map((migration) => migration.name).filter((name) => !applied.includes(name));
    return { ...(await this.engine.facts()), schema: applied.at(-1) ?? '', pending };
  }

  /** Looks for what goes wrong with this kind of database; only reads, and may take long. `now`: the time of this machine, Unix milliseconds. */
  async checks(now: number): Promise<EngineCheck[]> {
    return await this.engine.checks(now);
  }

  /** Waits for running transactions, then closes all connections. */
  async close(): Promise<void> {
    await this.engine.close();
  }
}
