import { knex as makeKnex, type Knex } from 'knex';
import BetterSqlite3Client from 'knex/lib/dialects/better-sqlite3/index.js';
import { translated } from '../translate';
import type { Outcome } from './sqliteConnection';
import { sqlite } from './sqlite';

/** Where a query builder sends its statements. */
export type Run = (sql: string, values: readonly unknown[]) => Promise<Outcome>;

/** A query builder whose statements go to `run`; its own `transaction` is a savepoint, and only where `run` is in a transaction. */
export function knexOver(run: Run, place: 'inside' | 'outside'): Knex {
  return makeKnex({ client: SqliteClient, useNullAsDefault: true, compileSqlOnError: false, run, place } as Knex.Config);
}

interface Query {
  readonly sql: string;
  readonly bindings: readonly unknown[];
  response?: unknown;
  context?: { lastID: number; changes: number };
}

/** Knex's SQLite without its pool: the engine's own connections serve it. */
class SqliteClient extends BetterSqlite3Client {
  /** Tells Knex to begin by a savepoint. */
  readonly transacting: boolean;

  constructor(config: Knex.Config & { place: 'inside' | 'outside' }) {
    super(config);
    this.transacting = config.place === 'inside';
  }

  override transaction(...args: Parameters<BetterSqlite3Client['transaction']>): Knex.Transaction {
    if (!this.transacting) throw new Error('a transaction begins at the unit of work, where the writers wait for each other');
    return super.transaction(...args);
  }

  override acquireConnection(): Promise<object> {
    return Promise.resolve({});
  }

  override releaseConnection(): Promise<void> {
    return Promise.resolve();
  }

  override async query(connection: unknown, query: unknown): Promise<unknown> {
    try {
      return await super.query(connection, query);
    } catch (error) {
      throw translated(sqlite, error);
    }
  }

  override async _query(_connection: unknown, query: Query): Promise<Query> {
    const { run } = this.config as { run: Run };
    const outcome = await run(query.sql, query.bindings ?? []);
    query.response = outcome.rows ?? { changes: outcome.changes, lastInsertRowid: outcome.lastId };
    query.context = { lastID: outcome.lastId, changes: outcome.changes };
    return query;
  }
}
