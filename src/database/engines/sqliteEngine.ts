import type { Knex } from 'knex';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import type { Db, HotStatement, SqlValue } from '../db';
import { codeOf, isDamage, messageOf, translated } from '../translate';
import { Checkpoints } from './checkpoints';
import type { DatabaseSize, Engine, EngineCheck, EngineFacts, MigrationWork, TrialSpace } from './engine';
import { REBUILD_NAME_SEARCH, sqlite } from './sqlite';
import { knexOver, type Run } from './sqliteClient';
import { type Found, isSearchDamage, lookForDamage, lookThrough } from './damage';
import { layMark, readMark } from './damageMark';
import { databaseDamaged } from './databaseDamaged';
import { openConnection, type SqliteConnection } from './sqliteConnection';
import { contentBytes, copyAside, findCopy, inMigration, onTrialCopy } from './sqliteMigrations';
import { runAll, WriteQueue } from './writeQueue';

/** Blocks the process; the longer wait between two tries, in beginWriting, does not. */
const SHORT_WAIT_MS = 2;
/** The inner pages of a tree of 50 million readings are 9 MiB; the usual 2 MiB would read them again for each. */
const WRITER_CACHE_KIB = 16_384;

/** What the SQLite engine needs. */
export interface SqliteOptions {
  readonly file: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly readOnly: boolean;
}

/**
 * A SQLite file with two connections: all writes go through the queue to the one, reads outside a transaction go to the
 * other, which sees committed data only and never waits for a writer.
 */
export class SqliteEngine implements Engine {
  readonly dialect = sqlite;
  readonly db: Db;
  private readonly queue: WriteQueue | undefined;
  private readonly writer: SqliteConnection | undefined;
  private readonly checkpoints: Checkpoints;
  private readonly reader: SqliteConnection;
  /** Once it was found, nothing is stored any more. */
  private damage: DomainError | undefined;
  private onDamage: (error: DomainError) => void = () => {};
  private rebuilding: Promise<void> | undefined;
  private leaveOff = async (): Promise<void> => {};

  /** Throws `database_unreadable`, `sqlite_too_old`. */
  constructor(private readonly options: SqliteOptions) {
    const { file, clock, log, readOnly } = options;
    // The writer waits for other processes in its queue, where it does not block the process.
    const writer = readOnly ? undefined : openConnection(file, { busyTimeoutMs: SHORT_WAIT_MS });
    writer?.run(`pragma cache_size = ${-WRITER_CACHE_KIB}`);
    const foldsAt = (pages: number): void => void writer?.run(`pragma wal_autocheckpoint = ${pages}`);
    foldsAt(0);
    this.checkpoints = new Checkpoints(file, log, foldsAt);
    this.writer = writer;
    if (writer) this.queue = new WriteQueue(writer, this.checkpoints, clock, log);
    this.reader = openConnection(file, { readOnly: true, busyTimeoutMs: 5000 });
    this.db = new SqliteDb('outside', (sql, values) => this.outside(sql, values), (action) => runAll([action], log));
  }

  /** The lock of the data folder keeps others off. */
  async own(onLost: (error: DomainError) => void): Promise<void> {
    this.onDamage = onLost;
    const { file, log } = this.options;
    this.leaveOff = await lookForDamage({ file, connection: this.reader, log, onDamage: (error) => this.damaged(error), onSearchDamage: async () => await this.rebuildSearch() });
    if (this.damage) throw this.damage;
  }

  async transaction<T>(work: (db: Db) => Promise<T>, isAhead?: boolean): Promise<T> {
    try {
      return await this.writes().transaction(async (transaction) => await work(new SqliteDb('inside', transaction.run, transaction.afterCommit)), isAhead);
    } catch (error) {
      throw translated(sqlite, error);
    }
  }

  async migrate<T>(work: MigrationWork<T>): Promise<T> {
    this.writes();
    return await inMigration(this.options.file, work);
  }

  async tryMigration(work: MigrationWork<void>): Promise<TrialSpace> {
    return await onTrialCopy(this.options.file, this.reader, work);
  }

  copyAside(label: string): Promise<string> {
    return Promise.resolve(copyAside(this.options.file, this.reader, label, this.options.clock.now()));
  }

  findCopy(labels: readonly string[]): string | undefined {
    return findCopy(this.options.file, labels);
  }

  size(): Promise<DatabaseSize> {
    const tables = this.reader.run("select name from pragma_table_list where type = 'table' and schema = 'main' and name not like 'sqlite%'").rows as { name: string }[];
    const rows = tables.map(({ name }) => this.reader.first<{ n: number }>(`select count(*) as n from "${name}"`)?.n ?? 0);
    return Promise.resolve({ rows: rows.reduce((sum, n) => sum + n, 0), bytes: contentBytes(this.reader) });
  }

  warnings(): Promise<string[]> {
    return Promise.resolve([]);
  }

  facts(): Promise<EngineFacts> {
    const { version } = this.reader.first<{ version: string }>('select sqlite_version() as version') ?? { version: '' };
    return Promise.resolve({ engine: 'SQLite', version, location: this.options.file });
  }

  checks(): Promise<EngineCheck[]> {
    return Promise.resolve([{ check: 'integrity', ...this.integrity() }]);
  }

  watch(onError: (error: unknown) => void): void {
    const heard = (error: unknown): void => {
      if (isDamage(error)) this.damaged(databaseDamaged(this.options.file, messageOf(error), error));
      if (isSearchDamage(error)) void this.rebuildSearch();
      onError(error);
    };
    this.reader.onError = heard;
    if (this.writer) this.writer.onError = heard;
  }

  reusableBytes(): number {
    const [{ freelist_count: pages = 0 } = {}, { page_size: bytes = 0 } = {}] = ['freelist_count', 'page_size'].map((name) => this.reader.first<{ freelist_count?: number; page_size?: number }>(`pragma ${name}`));
    return pages * bytes;
  }

  async takesWrites(): Promise<boolean> {
    try {
      // The same number again: it says nothing to anybody, and a page of the log is written for it.
      const { user_version: version = 0 } = this.reader.first<{ user_version: number }>('pragma user_version') ?? {};
      await this.writes().transaction(async (transaction) => await transaction.run(`pragma user_version = ${version}`, []));
      return true;
    } catch {
      return false; // the watch has heard why
    }
  }

  async close(): Promise<void> {
    await this.leaveOff();
    await this.rebuilding;
    await this.queue?.idle();
    await this.checkpoints.close();
    this.reader.close();
    this.writer?.close(); // last, so that it can fold the write-ahead log into the file
  }

  private async outside(sql: string, values: readonly unknown[]): Promise<ReturnType<SqliteConnection['run']>> {
    if (this.reader.isRead(sql)) return this.reader.run(sql, values);
    return await this.writes().transaction(async (transaction) => await transaction.run(sql, values));
  }

  private damaged(error: DomainError): void {
    if (this.damage) return;
    this.damage = error;
    this.options.log.error({ err: error }, 'database.damaged');
    this.remember(error);
    this.onDamage(error);
  }

  /** Whoever starts next must not store into it again. */
  private remember({ message }: DomainError): void {
    const { file, clock, log, readOnly } = this.options;
    if (readOnly) return;
    try {
      layMark(file, { found: message, at: new Date(clock.now()).toISOString() });
    } catch (err) {
      log.error({ err }, 'database.damage_not_marked'); // the disk takes nothing: the next one has to find it by itself
    }
  }

  /** Makes the damaged index of names anew; where that is not possible, the database is damaged. Never rejects. */
  private async rebuildSearch(): Promise<void> {
    if (!this.queue || this.damage) return;
    await (this.rebuilding ??= this.rebuilt().finally(() => (this.rebuilding = undefined)));
  }

  private async rebuilt(): Promise<void> {
    const { file, log } = this.options;
    const began = performance.now();
    try {
      await this.writes().transaction(async (transaction) => await transaction.run(REBUILD_NAME_SEARCH, []));
      log.warn({ duration_ms: Math.round(performance.now() - began) }, 'database.search_rebuilt');
    } catch (err) {
      if (codeOf(err).startsWith('SQLITE_CORRUPT')) return this.damaged(databaseDamaged(file, `its index of names cannot be made anew: ${messageOf(err)}`, err));
      log.warn({ err }, 'database.search_not_rebuilt'); // a full disk: the next one who needs it begins again
    }
  }

  private integrity(): Omit<EngineCheck, 'check'> {
    let found: Found;
    try {
      found = lookThrough(this.reader);
    } catch (error) {
      return { state: 'warn', found: `it could not be looked through: ${messageOf(error)}`, mend: 'try again' };
    }
    if (found.damage.length > 0) return { state: 'fail', found: found.damage.join('; '), mend: 'stop the server and restore a copy from before the damage' };
    if (found.isSearchDamaged) return { state: 'warn', found: 'the index of names is damaged', mend: 'start the server anew: it makes the index again' };
    const mark = readMark(this.options.file);
    if (mark) return { state: 'warn', found: `quick_check found nothing; but damage was noticed at ${mark.at}: ${mark.found}`, mend: 'start the server, which looks at all of it; if it does not start, restore a backup, and see to the disk and the memory of this machine' };
    return { state: 'ok', found: 'quick_check found nothing', mend: '' };
  }

  private writes(): WriteQueue {
    if (this.damage) throw this.damage;
    if (!this.queue) throw new DomainError('conflict', 'database_read_only', 'the database was opened for reading only');
    return this.queue;
  }
}

// A bare `?` in a join lets the planner look at its value, and then SQLite prepares the statement anew for each new value, which
// makes a device six times as slow. It does not look behind the plus, which changes no value and keeps the indexes.
const UNSEEN = '+?';

/** SQL of the hot statements, made once. */
const texts = new WeakMap<HotStatement, string>();

class SqliteDb implements Db {
  readonly dialect = sqlite;
  private builder: Knex | undefined;

  constructor(
    private readonly place: 'inside' | 'outside',
    private readonly run: Run,
    readonly afterCommit: (action: () => void) => void,
  ) {}

  get knex(): Knex {
    this.builder ??= knexOver(this.run, this.place); // 50 us, which a transaction of hot statements saves
    return this.builder;
  }

  async all<Row>(statement: HotStatement, values: readonly SqlValue[]): Promise<Row[]> {
    let sql = texts.get(statement);
    if (sql === undefined) texts.set(statement, (sql = statement.sql(sqlite).replaceAll('?', UNSEEN)));
    try {
      return ((await this.run(sql, values)).rows ?? []) as Row[];
    } catch (error) {
      throw translated(sqlite, error);
    }
  }
}
