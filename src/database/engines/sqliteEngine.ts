import type { Knex } from 'knex';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import type { Db, PreparedStatement, SqlValue } from '../db';
import { getCode, isCorruption, formatMessage, translateError } from '../translate';
import { Checkpoints } from './checkpoints';
import type { DatabaseSize, Engine, EngineCheck, EngineDescription, MigrationWork, MigrationSpace } from './engine';
import { REBUILD_NAME_SEARCH, sqlite } from './sqlite';
import { createSqliteKnex, type RunStatement } from './sqliteClient';
import { type IntegrityReport, isSearchIndexCorruption, watchIntegrity, checkIntegrity } from './integrity';
import { writeMarker, readMarker } from './corruptionMarker';
import { databaseCorrupt } from './databaseCorrupt';
import { isLogLost, removeOpenMarker, writeOpenMarker } from './openMarker';
import { openConnection, type SqliteConnection } from './sqliteConnection';
import { getContentBytes, copyBeforeMigration, findNewestCopy, runMigration, runOnTestCopy } from './sqliteMigrations';
import { runAfterCommitActions, WriteQueue } from './writeQueue';

/** Blocks the process; the longer wait between two attempts, in beginWriting, does not. */
const BUSY_TIMEOUT_MS = 2;
/**
 * The inner pages of a tree of 50 million readings take 9 MiB; with the default of 2 MiB they would be read again for
 * each reading.
 */
const WRITER_CACHE_KIB = 16_384;

/** The options of the SQLite engine. */
interface SqliteOptions {
  readonly file: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly readOnly: boolean;
}

/**
 * A SQLite file with two connections: all writes go through the queue to one connection, and reads outside a
 * transaction to the other, which sees committed data only and never waits for a writer.
 */
export class SqliteEngine implements Engine {
  readonly dialect = sqlite;
  readonly db: Db;
  private readonly queue: WriteQueue | undefined;
  private readonly writer: SqliteConnection | undefined;
  private readonly checkpoints: Checkpoints;
  private readonly reader: SqliteConnection;
  /** After corruption was found, nothing is stored any more. */
  private corruption: DomainError | undefined;
  private onCorruption: (error: DomainError) => void = () => {};
  private rebuilding: Promise<void> | undefined;
  private isOwner = false;
  private cancelIntegrityCheck = async (): Promise<void> => {};

  /** Throws `database_unreadable`, `database_corrupt`, `sqlite_too_old`, and the errors of loadNativeModule. */
  constructor(private readonly options: SqliteOptions) {
    const { file, clock, log, readOnly } = options;
    // The writer waits for other processes in its queue, where it does not block the process.
    const writer = readOnly ? undefined : openConnection(file, { busyTimeoutMs: BUSY_TIMEOUT_MS });
    writer?.run(`pragma cache_size = ${-WRITER_CACHE_KIB}`); // negative: KiB instead of pages
    const setAutoCheckpoint = (pages: number): void => void writer?.run(`pragma wal_autocheckpoint = ${pages}`);
    setAutoCheckpoint(0); // never: the thread of `checkpoints` does it, and calls this function if it fails
    this.checkpoints = new Checkpoints(file, log, setAutoCheckpoint);
    this.writer = writer;
    if (writer) this.queue = new WriteQueue(writer, this.checkpoints, clock, log);
    this.reader = openConnection(file, { readOnly: true, busyTimeoutMs: 5000 });
    this.db = new SqliteDb(
      'outside',
      (sql, values) => this.runOutsideTransaction(sql, values),
      (action) => runAfterCommitActions([action], log),
    );
  }

  /**
   * Marks the database as open and checks it for corruption. The lock of the data folder already keeps other servers
   * off, so with SQLite ownership is lost only by corruption: then `onLost` is called. Throws `database_corrupt`.
   */
  async acquireOwnership(onLost: (error: DomainError) => void): Promise<void> {
    this.onCorruption = onLost;
    this.isOwner = true;
    const { file, log } = this.options;
    writeOpenMarker(file, log);
    this.cancelIntegrityCheck = await watchIntegrity({
      file,
      connection: this.reader,
      log,
      onCorruption: (error) => this.handleCorruption(error),
      onSearchIndexCorruption: async () => await this.rebuildSearchIndex(),
    });
    // handleCorruption has set it if a statement or the rebuild of the name index failed.
    if (this.corruption) throw this.corruption;
  }

  /**
   * Runs the work in the queue of writers, where waiting transactions share a commit. `skipsFsync`: see Engine.
   */
  async transaction<T>(work: (db: Db) => Promise<T>, skipsFsync?: boolean): Promise<T> {
    try {
      return await this.getWriteQueue().transaction(
        async (transaction) => await work(new SqliteDb('inside', transaction.run, transaction.afterCommit)),
        skipsFsync,
      );
    } catch (error) {
      throw translateError(sqlite, error);
    }
  }

  /**
   * Migrates in one transaction on a separate connection. Throws the errors of getWriteQueue if nothing may be written.
   */
  async migrate<T>(work: MigrationWork<T>): Promise<T> {
    this.getWriteQueue(); // only for its errors
    return await runMigration(this.options.file, work);
  }

  async dryRunMigration(work: MigrationWork<void>): Promise<MigrationSpace> {
    return await runOnTestCopy(this.options.file, this.reader, work);
  }

  copyBeforeMigration(schema: string): Promise<string> {
    return Promise.resolve(copyBeforeMigration(this.options.file, this.reader, schema, this.options.clock.now()));
  }

  findNewestCopy(schemas: readonly string[]): string | undefined {
    return findNewestCopy(this.options.file, schemas);
  }

  /** Counts the rows of all tables and the bytes of the content. */
  measureSize(): Promise<DatabaseSize> {
    const tables = this.reader.run(
      "select name from pragma_table_list where type = 'table' and schema = 'main' and name not like 'sqlite%'",
    ).rows as { name: string }[];
    const rows = tables.map(
      ({ name }) => this.reader.getFirstRow<{ n: number }>(`select count(*) as n from "${name}"`)?.n ?? 0,
    );
    return Promise.resolve({ rows: rows.reduce((sum, n) => sum + n, 0), bytes: getContentBytes(this.reader) });
  }

  warnings(): Promise<string[]> {
    return Promise.resolve([]);
  }

  describe(): Promise<EngineDescription> {
    const { version } = this.reader.getFirstRow<{ version: string }>('select sqlite_version() as version') ?? {
      version: '',
    };
    return Promise.resolve({ engine: 'SQLite', version, location: this.options.file });
  }

  checks(): Promise<EngineCheck[]> {
    return Promise.resolve([{ check: 'integrity', ...this.describeIntegrity() }]);
  }

  /** Passes every error of a statement to `onError`, after corruption of the database or the name index was handled. */
  setErrorHandler(onError: (error: unknown) => void): void {
    const handleError = (error: unknown): void => {
      if (isCorruption(error)) this.handleCorruption(databaseCorrupt(this.options.file, formatMessage(error), error));
      if (isSearchIndexCorruption(error)) void this.rebuildSearchIndex();
      onError(error);
    };
    this.reader.onError = handleError;
    if (this.writer) this.writer.onError = handleError;
  }

  /** Returns the size of the free pages inside the file. */
  reusableBytes(): number {
    const freePages = this.reader.getFirstRow<{ freelist_count: number }>('pragma freelist_count')?.freelist_count ?? 0;
    const pageBytes = this.reader.getFirstRow<{ page_size: number }>('pragma page_size')?.page_size ?? 0;
    return freePages * pageBytes;
  }

  /**
   * Returns whether the disk accepts writes. Tries it by setting the user version of the file to the value that it has:
   * this changes nothing, but SQLite writes a page to its log for it.
   */
  async acceptsWrites(): Promise<boolean> {
    try {
      const { user_version: version = 0 } =
        this.reader.getFirstRow<{ user_version: number }>('pragma user_version') ?? {};
      await this.getWriteQueue().transaction(
        async (transaction) => await transaction.run(`pragma user_version = ${version}`, []),
      );
      return true;
    } catch {
      return false; // the disk monitor was notified of the reason
    }
  }

  /**
   * Waits for running work, then closes both connections. The writer is closed last, so that it can copy the
   * write-ahead log into the file.
   */
  async close(): Promise<void> {
    await this.cancelIntegrityCheck();
    await this.rebuilding;
    await this.queue?.waitUntilIdle();
    await this.checkpoints.close();
    const { file } = this.options;
    if (this.isOwner) removeOpenMarker(file);
    this.reader.close();
    this.writer?.close(); // last, so that it can checkpoint the write-ahead log into the file
    // A command after a server was killed: the log is in the file now.
    if (this.writer && isLogLost(file)) removeOpenMarker(file);
  }

  /** Runs a reading statement on the reader, and any other one in a transaction of its own. */
  private async runOutsideTransaction(
    sql: string,
    values: readonly unknown[],
  ): Promise<ReturnType<SqliteConnection['run']>> {
    if (this.reader.isRead(sql)) return this.reader.run(sql, values);
    return await this.getWriteQueue().transaction(async (transaction) => await transaction.run(sql, values));
  }

  /**
   * Stops storing, records the corruption next to the file, and notifies the owner. Only the first corruption counts.
   */
  private handleCorruption(error: DomainError): void {
    if (this.corruption) return;
    this.corruption = error;
    this.options.log.error({ err: error }, 'database.corrupt');
    this.writeCorruptionMarker(error);
    this.onCorruption(error);
  }

  /**
   * Records the corruption next to the file, so that the next server checks the whole file before it stores into it.
   */
  private writeCorruptionMarker({ message }: DomainError): void {
    const { file, clock, log, readOnly } = this.options;
    if (readOnly) return;
    try {
      writeMarker(file, { found: message, at: new Date(clock.now()).toISOString() });
    } catch (err) {
      // The disk accepts no writes: the next start has to find the corruption itself.
      log.error({ err }, 'database.corruption_not_marked');
    }
  }

  /** Rebuilds the corrupt name index. If this fails, the database counts as corrupt. Never rejects. */
  private async rebuildSearchIndex(): Promise<void> {
    if (!this.queue || this.corruption) return;
    await (this.rebuilding ??= this.runSearchIndexRebuild().finally(() => (this.rebuilding = undefined)));
  }

  /**
   * Rebuilds the name index in one transaction. A failure because of corruption means that the whole database is
   * corrupt; any other failure is retried with the next use of the index.
   */
  private async runSearchIndexRebuild(): Promise<void> {
    const { file, log } = this.options;
    const startedAt = performance.now();
    try {
      await this.getWriteQueue().transaction(async (transaction) => await transaction.run(REBUILD_NAME_SEARCH, []));
      log.warn({ duration_ms: Math.round(performance.now() - startedAt) }, 'database.search_index_rebuilt');
    } catch (err) {
      if (getCode(err).startsWith('SQLITE_CORRUPT')) {
        this.handleCorruption(databaseCorrupt(file, `its name index cannot be rebuilt: ${formatMessage(err)}`, err));
        return;
      }
      log.warn({ err }, 'database.search_not_rebuilt'); // a full disk: the next use tries again
    }
  }

  /** Checks the file, and returns the result for people with advice. */
  private describeIntegrity(): Omit<EngineCheck, 'check'> {
    let found: IntegrityReport;
    try {
      found = checkIntegrity(this.reader);
    } catch (error) {
      return { state: 'warn', found: `it could not be checked: ${formatMessage(error)}`, fix: 'try again' };
    }
    if (found.errors.length > 0) {
      return {
        state: 'fail',
        found: found.errors.join('; '),
        fix: 'stop the server and restore a backup from before the corruption',
      };
    }
    if (found.isSearchIndexCorrupt) {
      return {
        state: 'warn',
        found: 'the name index is corrupt',
        fix: 'restart the server: it rebuilds the index',
      };
    }
    const marker = readMarker(this.options.file);
    if (marker) {
      return {
        state: 'warn',
        found: `quick_check found nothing; but corruption was noticed at ${marker.at}: ${marker.found}`,
        fix: 'start the server, which checks the whole database; if it does not start, restore a backup, and check the disk and the memory of this machine',
      };
    }
    return { state: 'ok', found: 'quick_check found nothing', fix: '' };
  }

  /**
   * Returns the queue of writers. Throws `database_corrupt` after corruption was found, and `database_read_only` for a
   * read-only database.
   */
  private getWriteQueue(): WriteQueue {
    if (this.corruption) throw this.corruption;
    if (!this.queue) throw new DomainError('conflict', 'database_read_only', 'the database was opened read-only');
    return this.queue;
  }
}

// With a bare `?` in a join, the planner uses its value, and SQLite prepares the statement again for each new value,
// which makes a device six times as slow. The unary plus hides the value from the planner, changes nothing and keeps
// the indexes.
const HIDDEN_PARAMETER = '+?';

/** The SQL of the prepared statements, created once. */
const sqlTexts = new WeakMap<PreparedStatement, string>();

/** The plain connections or one transaction, as repositories use them. */
class SqliteDb implements Db {
  readonly dialect = sqlite;
  private builder: Knex | undefined;

  constructor(
    private readonly place: 'inside' | 'outside',
    private readonly run: RunStatement,
    readonly afterCommit: (action: () => void) => void,
  ) {}

  get knex(): Knex {
    this.builder ??= createSqliteKnex(this.run, this.place); // 50 us, which a transaction of hot statements saves
    return this.builder;
  }

  /** Runs a prepared statement, with its values hidden from the query planner. */
  async all<Row>(statement: PreparedStatement, values: readonly SqlValue[]): Promise<Row[]> {
    let sql = sqlTexts.get(statement);
    if (sql === undefined) {
      sql = statement.sql(sqlite).replaceAll('?', HIDDEN_PARAMETER);
      sqlTexts.set(statement, sql);
    }
    try {
      return ((await this.run(sql, values)).rows ?? []) as Row[];
    } catch (error) {
      throw translateError(sqlite, error);
    }
  }
}
