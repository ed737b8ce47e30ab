import { setTimeout as pause } from 'node:timers/promises';
import type { Knex } from 'knex';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { CommitOutcomeUnknownError } from '../commitOutcomeUnknownError';
import type { Db, PreparedStatement, SqlValue } from '../db';
import { getCode, translateError } from '../translate';
import type { DatabaseSize, Engine, EngineCheck, EngineDescription, MigrationWork } from './engine';
import { NAME_SEARCH_SQL, postgres } from './postgres';
import { createPool, type PostgresClient, type PostgresOptions } from './postgresClient';
import { UnknownCommitError, UnknownCommitTracker } from './unknownCommitTracker';
import { PostgresConnections } from './postgresConnections';
import { DatabaseLease } from './databaseLease';
import { runAfterCommitActions } from './writeQueue';

const MAX_ATTEMPTS = 4;
/** The maximum difference between the clocks of this machine and the database. */
const MAX_SKEW_MS = 5000;
/** How long a dry run waits for a table that is in use. */
const DRY_RUN_LOCK_TIMEOUT_MS = 5000;
// SQLSTATE codes.
const SERIALIZATION_FAILURE = '40001';
const DEADLOCK = '40P01';
/** The key of the advisory lock of migrations. */
const MIGRATION_LOCK = 4_738_201; // any number that is not used elsewhere in this database

interface RawConnection {
  query(query: { name: string; text: string; values: unknown[] }): Promise<{ rows: unknown[] }>;
}

/** A PostgreSQL database behind a pool of connections. */
export class PostgresEngine implements Engine {
  readonly dialect = postgres;
  readonly db: Db;
  private readonly knex: Knex;
  private readonly log: Logger;
  private readonly unknownCommits: UnknownCommitTracker;
  private readonly runningTransactions = new Set<Promise<unknown>>();
  private readonly connections = new PostgresConnections();
  private lease: DatabaseLease | undefined;
  private onError: (error: unknown) => void = () => {};

  constructor(private readonly options: PostgresOptions) {
    this.knex = createPool(options, {
      onError: (error) => this.onError(error),
      onConnection: (connection) => this.connections.watch(connection),
      sessionSql: () => this.lease?.sessionSql ?? '',
      isUnreachable: () => this.lease?.isUnreachable ?? false,
    });
    this.log = options.log;
    this.unknownCommits = new UnknownCommitTracker(this.knex, options.log);
    this.db = new PostgresDb(this.knex, (action) => runAfterCommitActions([action], this.log));
  }

  /** Throws `database_unavailable`, `database_refused`, `database_encoding`. */
  async assertUsable(): Promise<void> {
    try {
      const { rows } = (await this.knex.raw("select current_setting('server_encoding') as encoding")) as {
        rows: { encoding: string }[];
      };
      const encoding = rows[0]?.encoding;
      if (encoding !== 'UTF8') {
        throw new DomainError(
          'conflict',
          'database_encoding',
          `the database ${this.getLocation()} stores text as ${encoding}; create it with encoding UTF8`,
        );
      }
    } catch (error) {
      throw this.toStartError(error);
    }
  }

  /**
   * Acquires the lease, then opens all connections again: from then on each connection checks that this server still
   * holds the lease.
   */
  async acquireOwnership(onLost: (error: DomainError) => void): Promise<void> {
    const { url, leaseMs } = this.options;
    const lease = new DatabaseLease({
      url,
      location: this.getLocation(),
      leaseMs,
      log: this.log,
      onLost,
      onUnreachable: () => this.connections.destroyAll(),
      onRenewed: async (client, name) => await this.connections.closeSilentConnections(client, name),
    });
    try {
      await lease.acquire();
    } catch (error) {
      throw this.toStartError(error);
    }
    await this.knex.destroy();
    this.lease = lease;
    this.knex.initialize(); // from here on each connection carries the epoch
  }

  /** Runs the work in a transaction, and again after a serialization failure. `close` waits for it. */
  async transaction<T>(work: (db: Db) => Promise<T>): Promise<T> {
    const run = this.runWithRetries(work);
    this.runningTransactions.add(run);
    try {
      return await run;
    } finally {
      this.runningTransactions.delete(run);
    }
  }

  /** Migrates under an advisory lock, so that no other process migrates at the same time. */
  async migrate<T>(work: MigrationWork<T>): Promise<T> {
    try {
      return await this.knex.transaction(async (transaction) => {
        await transaction.raw('select pg_advisory_xact_lock(?)', [MIGRATION_LOCK]);
        return await work(transaction, () => {});
      });
    } catch (error) {
      if (error instanceof UnknownCommitError)
        throw new CommitOutcomeUnknownError(this.unknownCommits.waitUntilEnded(error.backendPid), error.cause);
      throw translateError(postgres, error);
    }
  }

  /**
   * Runs the migration and rolls it back. Returns undefined, because the administrator of PostgreSQL is responsible for
   * its space.
   */
  async dryRunMigration(work: MigrationWork<void>): Promise<undefined> {
    const intendedRollback = new Error('rolled back as intended');
    try {
      await this.knex.transaction(async (transaction) => {
        // Otherwise a server that waits for its tables would wait for the dry run.
        await transaction.raw(`set local lock_timeout = '${DRY_RUN_LOCK_TIMEOUT_MS}ms'`);
        await transaction.raw('select pg_advisory_xact_lock(?)', [MIGRATION_LOCK]);
        await work(transaction, () => {});
        throw intendedRollback;
      });
    } catch (error) {
      if (error !== intendedRollback) throw translateError(postgres, error);
    }
  }

  copyBeforeMigration(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  findNewestCopy(): undefined {
    return undefined;
  }

  /** Counts the rows of all tables and the bytes of the whole database. */
  async measureSize(): Promise<DatabaseSize> {
    const tables = (await this.knex('pg_tables')
      .whereRaw('schemaname = current_schema()')
      .pluck('tablename')) as string[];
    let rows = 0;
    for (const table of tables) rows += Number((await this.knex(table).count<{ n: number }[]>('* as n'))[0]?.n);
    const { rows: sizes } = (await this.knex.raw('select pg_database_size(current_database()) as bytes')) as {
      rows: { bytes: number }[];
    };
    return { rows, bytes: Number(sizes[0]?.bytes) };
  }

  /** Warns if the index for the search by name is missing. */
  async warnings(): Promise<string[]> {
    const indexes: unknown[] = await this.knex('pg_indexes')
      .where({ indexname: 'digital_devices_search' })
      .whereRaw('schemaname = current_schema()')
      .select('indexname');
    if (indexes.length > 0) return [];
    return [
      `searching devices by name is slow without the extension pg_trgm; let an administrator run "create extension pg_trgm; ${NAME_SEARCH_SQL}" in ${this.getLocation()}`,
    ];
  }

  async describe(): Promise<EngineDescription> {
    const { rows } = (await this.knex.raw('show server_version')) as { rows: { server_version: string }[] };
    return { engine: 'PostgreSQL', version: rows[0]?.server_version ?? '', location: this.getLocation() };
  }

  /** Checks whether the extension pg_trgm exists, and whether the clocks of this machine and the database agree. */
  async checks(now: number): Promise<EngineCheck[]> {
    const { rows } = (await this.knex.raw(
      "select (extract(epoch from clock_timestamp()) * 1000)::bigint as now, exists (select 1 from pg_extension where extname = 'pg_trgm') as trigram",
    )) as { rows: { now: number; trigram: boolean }[] };
    const skew = Math.round(Math.abs(now - Number(rows[0]?.now)));
    const isSynchronized = skew < MAX_SKEW_MS;
    return [
      rows[0]?.trigram === true
        ? { check: 'pg_trgm', state: 'ok', found: 'present', fix: '' }
        : {
            check: 'pg_trgm',
            state: 'warn',
            found: 'missing: a search for devices by name reads all of them',
            fix: 'as a superuser: create extension pg_trgm; in this database',
          },
      {
        check: 'database clock',
        state: isSynchronized ? 'ok' : 'warn',
        found: `${skew} ms from this machine`,
        fix: isSynchronized ? '' : 'synchronize both clocks by NTP',
      },
    ];
  }

  setErrorHandler(onError: (error: unknown) => void): void {
    this.onError = onError;
  }

  reusableBytes(): number {
    return 0;
  }

  /** Creates a table that uses space and is rolled back with its transaction. */
  async acceptsWrites(): Promise<boolean> {
    const intendedRollback = new Error('rolled back as intended');
    try {
      await this.knex.transaction(async (transaction) => {
        await transaction.raw(
          'create table plantroom_room_trial as select n, md5(n::text) as filler from generate_series(1, 10000) as n',
        ); // 0.6 MiB
        throw intendedRollback;
      });
      return false; // never reached: the transaction always rejects
    } catch (error) {
      // Class 42: this user may not create tables, so the next change shows whether the disk accepts it.
      const isNotPermitted = getCode(error instanceof DomainError ? error.cause : error).startsWith('42');
      return error === intendedRollback || isNotPermitted;
    }
  }

  /**
   * Waits for running transactions, closes the pool, and releases the lease last, so that another server starts only
   * when nothing of this one can reach the database.
   */
  async close(): Promise<void> {
    await Promise.allSettled(this.runningTransactions);
    this.unknownCommits.close();
    await this.knex.destroy();
    await this.lease?.release();
  }

  /**
   * Runs the work again after a serialization failure or a deadlock, which PostgreSQL resolves by rolling one
   * transaction back; at most MAX_ATTEMPTS times in all. Throws CommitOutcomeUnknownError if the commit may have been
   * stored.
   */
  private async runWithRetries<T>(work: (db: Db) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.runTransactionAttempt(work);
      } catch (error) {
        if (error instanceof UnknownCommitError)
          throw new CommitOutcomeUnknownError(this.unknownCommits.waitUntilEnded(error.backendPid), error.cause);
        if (attempt === MAX_ATTEMPTS || !isSerializationFailure(error)) throw translateError(postgres, error);
        this.log.debug({ attempt, error }, 'database.transaction_retried');
        // Milliseconds; random, so that two transactions that collided do not collide again.
        await pause(Math.random() * 20 * attempt);
      }
    }
  }

  /** Runs the work in one transaction, and its afterCommit actions after the commit. */
  private async runTransactionAttempt<T>(work: (db: Db) => Promise<T>): Promise<T> {
    const actions: (() => void)[] = [];
    const value = await this.knex.transaction(
      async (transaction) => await work(new PostgresDb(transaction, (action) => actions.push(action))),
    );
    runAfterCommitActions(actions, this.log);
    return value;
  }

  /** Returns host, port and database, for people; never the password. */
  private getLocation(): string {
    const { hostname, port, pathname } = new URL(this.options.url);
    return `${hostname}:${port || '5432'}${pathname}`;
  }

  /**
   * Describes an error of the first connection: `database_refused` for a wrong user, password or database name,
   * `database_unavailable` if there is no response; any other error is returned unchanged.
   */
  private toStartError(error: unknown): unknown {
    const cause = error instanceof DomainError && error.cause ? error.cause : error;
    const code = getCode(cause);
    const isRefused = /^(28|3D|42501)/.test(code); // SQLSTATE: wrong user or password, unknown database, no permission
    if (isRefused) {
      return new DomainError(
        'conflict',
        'database_refused',
        `PostgreSQL at ${this.getLocation()} refused the connection (${code}): check the user, password and database of the database URL`,
        { cause },
      );
    }
    if (!postgres.isUnavailable(cause)) return error;
    return new DomainError(
      'unavailable',
      'database_unavailable',
      `PostgreSQL at ${this.getLocation()} cannot be reached (${code || 'no response'}): check the database URL, and that the server runs and accepts connections`,
      { cause },
    );
  }
}

/**
 * Whether PostgreSQL rolled the transaction back because of a concurrent one, so that the same work can succeed in a
 * new transaction.
 */
function isSerializationFailure(error: unknown): boolean {
  return [SERIALIZATION_FAILURE, DEADLOCK].includes(getCode(error instanceof DomainError ? error.cause : error));
}

/** The SQL of the prepared statements with numbered values, created once. */
const numberedSql = new WeakMap<PreparedStatement, string>();

/** Returns the SQL with `$1`, `$2`, ... instead of each `?`. */
function getNumberedSql(statement: PreparedStatement): string {
  let text = numberedSql.get(statement);
  if (text === undefined) {
    let count = 0;
    text = statement.sql(postgres).replaceAll('?', () => `$${++count}`);
    numberedSql.set(statement, text);
  }
  return text;
}

/** The connection pool or one transaction, as repositories use it. */
class PostgresDb implements Db {
  readonly dialect = postgres;

  constructor(
    readonly knex: Knex,
    readonly afterCommit: (action: () => void) => void,
  ) {}

  /**
   * Runs a prepared statement on a connection of the pool or the transaction. Throws if the transaction is over,
   * because its connection may already run another one.
   */
  async all<Row>(statement: PreparedStatement, values: readonly SqlValue[]): Promise<Row[]> {
    const { client, isCompleted } = this.knex as { client: Knex.Client; isCompleted?: () => boolean };
    // After the end of a transaction, its connection may already run another one.
    if (isCompleted?.()) throw new Error('this transaction is over: its repositories must not be used after its work');
    const connection = (await client.acquireConnection()) as RawConnection;
    try {
      return (await connection.query({ name: statement.name, text: getNumberedSql(statement), values: [...values] }))
        .rows as Row[];
    } catch (error) {
      throw (client as PostgresClient).handleStatementError(connection, error);
    } finally {
      await client.releaseConnection(connection);
    }
  }
}
