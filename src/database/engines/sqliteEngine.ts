import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Knex } from 'knex';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import type { Db, HotStatement, SqlValue } from '../db';
import { translated } from '../translate';
import { Checkpoints } from './checkpoints';
import type { Engine, EngineCheck, EngineFacts } from './engine';
import { sqlite } from './sqlite';
import { knexOver, type Run } from './sqliteClient';
import { openConnection, type SqliteConnection } from './sqliteConnection';
import { beginWriting, runAll, WriteQueue } from './writeQueue';

const KEPT_COPIES = 3;
/** Blocks the process; the longer wait between two tries, in beginWriting, does not. */
const SHORT_WAIT_MS = 2;
/** The inner pages of a tree of 50 million readings are 9 MiB; the usual 2 MiB would read them again for each. */
const WRITER_CACHE_KIB = 16_384;
const MIGRATION_TRIES = 500;

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

  own(): Promise<void> {
    return Promise.resolve(); // the lock of the data folder does it
  }

  async transaction<T>(work: (db: Db) => Promise<T>, isAhead?: boolean): Promise<T> {
    try {
      return await this.writes().transaction(async (transaction) => await work(new SqliteDb('inside', transaction.run, transaction.afterCommit)), isAhead);
    } catch (error) {
      throw translated(sqlite, error);
    }
  }

  async migrationStep<T>(work: (knex: Knex) => Promise<T>): Promise<T> {
    this.writes();
    // Foreign keys cannot be switched off inside a transaction, and a table that is rebuilt would take its referring rows along.
    const connection = openConnection(this.options.file, { busyTimeoutMs: SHORT_WAIT_MS });
    try {
      connection.run('pragma foreign_keys = off');
      await beginWriting(connection, MIGRATION_TRIES);
      const result = await work(knexOver(async (sql, values) => connection.run(sql, values), 'inside'));
      checkForeignKeys(connection);
      connection.run('commit');
      return result;
    } catch (error) {
      throw translated(sqlite, error);
    } finally {
      connection.close(); // rolls back what was not committed
    }
  }

  copyAside(label: string): Promise<string> {
    const folder = join(dirname(this.options.file), 'backups');
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const time = new Date(this.options.clock.now()).toISOString().replaceAll(':', '-');
    const copy = join(folder, `before-migration-${time}-${label}.db`);
    if (existsSync(copy)) rmSync(copy);
    this.reader.run('vacuum into ?', [copy]);
    const handle = openSync(copy, 'r+');
    fsyncSync(handle);
    closeSync(handle);
    const copies = readdirSync(folder).filter((name) => name.startsWith('before-migration-')).toSorted();
    for (const old of copies.slice(0, -KEPT_COPIES)) rmSync(join(folder, old));
    return Promise.resolve(copy);
  }

  warnings(): Promise<string[]> {
    return Promise.resolve([]);
  }

  facts(): Promise<EngineFacts> {
    const { version } = this.reader.first<{ version: string }>('select sqlite_version() as version') ?? { version: '' };
    return Promise.resolve({ engine: 'SQLite', version, location: this.options.file });
  }

  checks(): Promise<EngineCheck[]> {
    const rows = (this.reader.run('pragma quick_check').rows ?? []) as { quick_check: string }[];
    const damage = rows.map((row) => row.quick_check).filter((line) => line !== 'ok');
    if (damage.length === 0) return Promise.resolve([{ check: 'integrity', state: 'ok', found: 'quick_check found nothing', mend: '' }]);
    return Promise.resolve([{ check: 'integrity', state: 'fail', found: damage.slice(0, 3).join('; '), mend: 'stop the server and restore a copy from before the damage' }]);
  }

  async close(): Promise<void> {
    await this.queue?.idle();
    await this.checkpoints.close();
    this.reader.close();
    this.writer?.close(); // last, so that it can fold the write-ahead log into the file
  }

  private async outside(sql: string, values: readonly unknown[]): Promise<ReturnType<SqliteConnection['run']>> {
    if (this.reader.isRead(sql)) return this.reader.run(sql, values);
    return await this.writes().transaction(async (transaction) => await transaction.run(sql, values));
  }

  private writes(): WriteQueue {
    if (!this.queue) throw new DomainError('conflict', 'database_read_only', 'the database was opened for reading only');
    return this.queue;
  }
}

function checkForeignKeys(connection: SqliteConnection): void {
  const broken = connection.run('pragma foreign_key_check').rows as { table: string; parent: string }[];
  const [first] = broken;
  if (first) throw new Error(`the migration left ${broken.length} rows without what they refer to, first in ${first.table} (to ${first.parent}); nothing was changed`);
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
