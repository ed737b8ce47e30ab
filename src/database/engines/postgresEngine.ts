import { setTimeout as pause } from 'node:timers/promises';
import type { Knex } from 'knex';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { CommitUnknown } from '../commitUnknown';
import type { Db, HotStatement, SqlValue } from '../db';
import { codeOf, translated } from '../translate';
import type { DatabaseSize, Engine, EngineCheck, EngineFacts, MigrationWork } from './engine';
import { NAME_SEARCH_SQL, postgres } from './postgres';
import { connect, type PostgresClient, type PostgresOptions } from './postgresClient';
import { LostCommit, LostCommits } from './postgresCommits';
import { PostgresOwnership } from './postgresOwnership';
import { runAll } from './writeQueue';

const TRIES = 4;
const MOST_SKEW_MS = 5000;
/** How long a trial waits for a table that somebody uses. */
const TRIAL_LOCK_MS = 5000;
const MIGRATION_LOCK = 4_738_201; // any number that nobody else uses in this database

interface RawConnection {
  query(query: { name: string; text: string; values: unknown[] }): Promise<{ rows: unknown[] }>;
}

/** A PostgreSQL database behind a pool of connections. */
export class PostgresEngine implements Engine {
  readonly dialect = postgres;
  readonly db: Db;
  private readonly knex: Knex;
  private readonly log: Logger;
  private readonly lostCommits: LostCommits;
  private readonly running = new Set<Promise<unknown>>();
  private ownership: PostgresOwnership | undefined;
  private onError: (error: unknown) => void = () => {};

  constructor(private readonly options: PostgresOptions) {
    this.knex = connect(options, (error) => this.onError(error));
    this.log = options.log;
    this.lostCommits = new LostCommits(this.knex, options.log);
    this.db = new PostgresDb(this.knex, (action) => runAll([action], this.log));
  }

  /** Throws `database_unavailable`, `database_refused`, `database_encoding`. */
  async check(): Promise<void> {
    try {
      const { rows } = (await this.knex.raw("select current_setting('server_encoding') as encoding")) as { rows: { encoding: string }[] };
      const encoding = rows[0]?.encoding;
      if (encoding !== 'UTF8') throw new DomainError('conflict', 'database_encoding', `the database ${this.location()} stores text as ${encoding}; create it with encoding UTF8`);
    } catch (error) {
      throw this.startError(error);
    }
  }

  async own(onLost: (error: DomainError) => void): Promise<void> {
    const ownership = new PostgresOwnership({ url: this.options.url, location: this.location(), log: this.log, onLost });
    try {
      await ownership.take();
    } catch (error) {
      throw this.startError(error);
    }
    this.ownership = ownership;
  }

  async transaction<T>(work: (db: Db) => Promise<T>): Promise<T> {
    const run = this.repeated(work);
    this.running.add(run);
    try {
      return await run;
    } finally {
      this.running.delete(run);
    }
  }

  async migrate<T>(work: MigrationWork<T>): Promise<T> {
    try {
      return await this.knex.transaction(async (transaction) => {
        await transaction.raw('select pg_advisory_xact_lock(?)', [MIGRATION_LOCK]);
        return await work(transaction, () => {});
      });
    } catch (error) {
      if (error instanceof LostCommit) throw new CommitUnknown(this.lostCommits.over(error.process), error.cause);
      throw translated(postgres, error);
    }
  }

  async tryMigration(work: MigrationWork<void>): Promise<undefined> {
    const tried = new Error('rolled back as meant');
    try {
      await this.knex.transaction(async (transaction) => {
        await transaction.raw(`set local lock_timeout = '${TRIAL_LOCK_MS}ms'`); // a server that waits for its tables waits behind this
        await transaction.raw('select pg_advisory_xact_lock(?)', [MIGRATION_LOCK]);
        await work(transaction, () => {});
        throw tried;
      });
    } catch (error) {
      if (error !== tried) throw translated(postgres, error);
    }
  }

  copyAside(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  findCopy(): undefined {
    return undefined;
  }

  async size(): Promise<DatabaseSize> {
    const tables = (await this.knex('pg_tables').whereRaw('schemaname = current_schema()').pluck('tablename')) as string[];
    let rows = 0;
    for (const table of tables) rows += Number((await this.knex(table).count<{ n: number }[]>('* as n'))[0]?.n);
    const { rows: sizes } = (await this.knex.raw('select pg_database_size(current_database()) as bytes')) as { rows: { bytes: number }[] };
    return { rows, bytes: Number(sizes[0]?.bytes) };
  }

  async warnings(): Promise<string[]> {
    const indexes: unknown[] = await this.knex('pg_indexes').where({ indexname: 'digital_devices_search' }).whereRaw('schemaname = current_schema()').select('indexname');
    if (indexes.length > 0) return [];
    return [`searching devices by name is slow without the extension pg_trgm; let an administrator run "create extension pg_trgm; ${NAME_SEARCH_SQL}" in ${this.location()}`];
  }

  async facts(): Promise<EngineFacts> {
    const { rows } = (await this.knex.raw('show server_version')) as { rows: { server_version: string }[] };
    return { engine: 'PostgreSQL', version: rows[0]?.server_version ?? '', location: this.location() };
  }

  async checks(now: number): Promise<EngineCheck[]> {
    const { rows } = (await this.knex.raw(
      "select (extract(epoch from clock_timestamp()) * 1000)::bigint as now, exists (select 1 from pg_extension where extname = 'pg_trgm') as trigram",
    )) as { rows: { now: number; trigram: boolean }[] };
    const skew = Math.round(Math.abs(now - Number(rows[0]?.now)));
    const isClose = skew < MOST_SKEW_MS;
    return [
      rows[0]?.trigram === true
        ? { check: 'pg_trgm', state: 'ok', found: 'present', mend: '' }
        : { check: 'pg_trgm', state: 'warn', found: 'missing: searching devices by name reads all of them', mend: 'as a superuser: create extension pg_trgm; in this database' },
      { check: 'database clock', state: isClose ? 'ok' : 'warn', found: `${skew} ms from this machine`, mend: isClose ? '' : 'set both clocks by NTP' },
    ];
  }

  watch(onError: (error: unknown) => void): void {
    this.onError = onError;
  }

  reusableBytes(): number {
    return 0;
  }

  /** Makes a table that takes room, which is gone with its transaction. */
  async takesWrites(): Promise<boolean> {
    const tried = new Error('rolled back as meant');
    try {
      await this.knex.transaction(async (transaction) => {
        await transaction.raw('create table plantroom_room_trial as select n, md5(n::text) as filler from generate_series(1, 10000) as n'); // 0.6 MiB
        throw tried;
      });
      return false;
    } catch (error) {
      return error === tried || codeOf(error instanceof DomainError ? error.cause : error).startsWith('42'); // it may make no tables: then the next change shows it
    }
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.running);
    this.lostCommits.close();
    await this.knex.destroy();
    await this.ownership?.close(); // last: nothing of this server reaches the database any more
  }

  private async repeated<T>(work: (db: Db) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.once(work);
      } catch (error) {
        if (error instanceof LostCommit) throw new CommitUnknown(this.lostCommits.over(error.process), error.cause);
        if (attempt === TRIES || !isLostRace(error)) throw translated(postgres, error);
        this.log.debug({ attempt, error }, 'database.transaction_repeated');
        await pause(Math.random() * 20 * attempt); // two that met once should not meet again
      }
    }
  }

  private async once<T>(work: (db: Db) => Promise<T>): Promise<T> {
    const actions: (() => void)[] = [];
    const value = await this.knex.transaction(async (transaction) => await work(new PostgresDb(transaction, (action) => actions.push(action))));
    runAll(actions, this.log);
    return value;
  }

  private location(): string {
    const { hostname, port, pathname } = new URL(this.options.url);
    return `${hostname}:${port || '5432'}${pathname}`;
  }

  private startError(error: unknown): unknown {
    const cause = error instanceof DomainError && error.cause ? error.cause : error;
    const code = codeOf(cause);
    if (/^(28|3D|42501)/.test(code)) {
      return new DomainError('conflict', 'database_refused', `PostgreSQL at ${this.location()} refused (${code}); check the user, password and database of the database URL`, { cause });
    }
    if (!postgres.isUnavailable(cause)) return error;
    return new DomainError('unavailable', 'database_unavailable', `PostgreSQL at ${this.location()} cannot be reached (${code || 'no answer'}); check the database URL, and that the server runs and takes connections`, { cause });
  }
}

function isLostRace(error: unknown): boolean {
  return ['40001', '40P01'].includes(codeOf(error instanceof DomainError ? error.cause : error));
}

/** SQL of the hot statements with numbered values, made once. */
const texts = new WeakMap<HotStatement, string>();

function numbered(statement: HotStatement): string {
  let text = texts.get(statement);
  if (text === undefined) {
    let count = 0;
    text = statement.sql(postgres).replaceAll('?', () => `$${++count}`);
    texts.set(statement, text);
  }
  return text;
}

class PostgresDb implements Db {
  readonly dialect = postgres;

  constructor(
    readonly knex: Knex,
    readonly afterCommit: (action: () => void) => void,
  ) {}

  async all<Row>(statement: HotStatement, values: readonly SqlValue[]): Promise<Row[]> {
    const { client, isCompleted } = this.knex as { client: Knex.Client; isCompleted?: () => boolean };
    // Its connection serves somebody else by now.
    if (isCompleted?.()) throw new Error('this transaction is over: its repositories may not be used beyond the work they were given to');
    const connection = (await client.acquireConnection()) as RawConnection;
    try {
      return (await connection.query({ name: statement.name, text: numbered(statement), values: [...values] })).rows as Row[];
    } catch (error) {
      throw (client as PostgresClient).heard(connection, error);
    } finally {
      await client.releaseConnection(connection);
    }
  }
}
