import type { Clock } from '../kernel/clock';
import type { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import { DatabaseMetrics } from './databaseMetrics';
import type { Db } from './db';
import { DiskMonitor } from './diskMonitor';
import type { Dialect } from './engines/dialect';
import type { Engine, EngineCheck, EngineDescription } from './engines/engine';
import { JoinedTransactions } from './joinedTransactions';
import {
  listAppliedMigrations,
  migrateDown,
  migrateUp,
  dryRunMigrations,
  type MigrationContext,
  type MigrationReport,
  type MigrationDryRunReport,
} from './migrate';
import { MIGRATIONS, type Migration } from './migrations';

/** What `doctor` and `version` report about the database and its schema. */
export interface DatabaseDescription extends EngineDescription {
  /** The newest applied migration; empty for a new database. */
  readonly schema: string;
  /** Migrations of this program that the database does not have yet. */
  readonly pending: readonly string[];
}

/** The open database. */
export class Database {
  /** Outside a transaction: reads see committed data, and each write is its own transaction. */
  readonly db: Db;
  readonly dialect: Dialect;
  /** Counts and durations of transactions and reads. */
  readonly metrics = new DatabaseMetrics();
  /** Reports whether the disk accepts writes. For the disk of PostgreSQL it knows only the errors of PostgreSQL. */
  readonly disk: DiskMonitor;
  private readonly migrationContext: MigrationContext;
  private readonly joinedTransactions = new JoinedTransactions();

  constructor(
    private readonly engine: Engine,
    {
      dataDir,
      clock,
      log,
      migrations = MIGRATIONS,
    }: {
      readonly dataDir: string;
      readonly clock: Clock;
      readonly log: Logger;
      readonly migrations?: readonly Migration[];
    },
  ) {
    this.db = this.joinedTransactions.wrapDb(this.metrics.measureReads(engine.db));
    this.dialect = engine.dialect;
    this.migrationContext = { engine, clock, log, migrations };
    this.disk = new DiskMonitor({
      dataDir,
      log,
      reusableBytes: () => engine.reusableBytes(),
      acceptsWrites: async () => await engine.acceptsWrites(),
    });
    engine.setErrorHandler((error) => this.disk.handleError(error));
  }

  /**
   * Prevents other servers from using this database until `close`, and checks it for corruption. Throws
   * `database_in_use`, `database_corrupt`. `onLost` is called when this server must stop: another server may have taken
   * over the lease, or corruption was found. For a server only: commands run alongside it.
   */
  async acquireOwnership(onLost: (error: DomainError) => void): Promise<void> {
    await this.engine.acquireOwnership(onLost);
  }

  /**
   * Runs the work in one transaction and resolves when it is on disk. Transactions that wait at the same time share one
   * commit on SQLite, but each succeeds or fails alone. Inside `joinedTransaction`, the work runs as a part of that
   * transaction, and is not committed before it. The work may only use the database, through the `db` that it receives:
   * no network, no timers. PostgreSQL may run the work more than once (after a serialization failure), so it may change
   * other state only in `afterCommit`. Throws what the work throws, and `database_unavailable`: then nothing was
   * stored, unless the error is a CommitOutcomeUnknownError.
   */
  async transaction<T>(work: (db: Db) => Promise<T>): Promise<T> {
    const joinedResult = this.joinedTransactions.join(work);
    if (joinedResult) return await joinedResult;
    return await this.metrics.measureTransaction(
      async (measuredWork) => await this.engine.transaction(measuredWork),
      work,
    );
  }

  /**
   * Like `transaction`, for work that calls services which start transactions themselves. Every transaction and every
   * statement that the work starts becomes a part of this one transaction, so that either everything is stored or
   * nothing. If one of them fails, all fail. The rules for the work of `transaction` apply.
   */
  async joinedTransaction<T>(work: (db: Db) => Promise<T>): Promise<T> {
    return await this.transaction(async (db) => await this.joinedTransactions.run(db, async () => await work(db)));
  }

  /**
   * Like `transaction`, but on SQLite it resolves without waiting for the disk: a power failure may still lose the
   * transaction, but then every later one is lost too. Never joins another transaction.
   */
  async transactionWithoutFsync<T>(work: (db: Db) => Promise<T>): Promise<T> {
    return await this.metrics.measureTransaction(
      async (measuredWork) => await this.engine.transaction(measuredWork, true),
      work,
    );
  }

  /**
   * Upgrades the schema to the version of this program, completely or not at all. A SQLite file is copied first, unless
   * `shouldCopy` is false. Throws `schema_version_unsupported`, `insufficient_space`, `migration_failed`.
   */
  async migrate(shouldCopy = true): Promise<MigrationReport> {
    const report = await migrateUp(this.migrationContext, shouldCopy);
    for (const message of await this.engine.warnings())
      this.migrationContext.log.warn({ message }, 'database.recommendation');
    return report;
  }

  /** Tests what `migrate` would do, and changes nothing. Throws `schema_version_unsupported`, `insufficient_space`. */
  async dryRunMigrations(): Promise<MigrationDryRunReport> {
    return await dryRunMigrations(this.migrationContext);
  }

  /** Reverts every migration after `name`, newest first; all of them for an empty name. Returns their names. */
  async migrateDown(name: string): Promise<string[]> {
    return await migrateDown(this.migrationContext, name);
  }

  /** Throws `database_unavailable` if the database does not respond. */
  async ping(): Promise<void> {
    await this.db.all({ name: 'database.ping', sql: () => 'select 1' }, []);
  }

  /** Describes the engine, its location and the schema, for people; never contains a secret. */
  async describe(): Promise<DatabaseDescription> {
    const applied = await listAppliedMigrations(this.db.knex);
    const pending = this.migrationContext.migrations
      .map((migration) => migration.name)
      .filter((name) => !applied.includes(name));
    return { ...(await this.engine.describe()), schema: applied.at(-1) ?? '', pending };
  }

  /**
   * Checks for known problems of this kind of database and returns one result for each check. Only reads, and may take
   * long. `now`: the time of this machine, Unix milliseconds.
   */
  async checks(now: number): Promise<EngineCheck[]> {
    return await this.engine.checks(now);
  }

  /** Waits for running transactions, then closes all connections. */
  async close(): Promise<void> {
    await this.engine.close();
  }
}
