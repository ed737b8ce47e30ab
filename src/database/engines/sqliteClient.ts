import { knex as makeKnex, type Knex } from 'knex';
import BetterSqlite3Client from 'knex/lib/dialects/better-sqlite3/index.js';
import { translateError } from '../translate';
import type { StatementResult } from './sqliteConnection';
import { sqlite } from './sqlite';

/** Runs the statements of a query builder. */
export type RunStatement = (sql: string, values: readonly unknown[]) => Promise<StatementResult>;

/**
 * Creates a query builder whose statements go to `runStatement`. `place`: whether these run inside a transaction. Only
 * then may its `transaction` be called, which is a savepoint.
 */
export function createSqliteKnex(runStatement: RunStatement, place: 'inside' | 'outside'): Knex {
  return makeKnex({
    client: SqliteClient,
    useNullAsDefault: true,
    compileSqlOnError: false,
    runStatement,
    place,
  } as Knex.Config);
}

interface QueryObject {
  readonly sql: string;
  readonly bindings: readonly unknown[];
  response?: unknown;
  context?: { lastID: number; changes: number };
}

/** Knex's SQLite without its pool: the engine's own connections serve it. */
class SqliteClient extends BetterSqlite3Client {
  /** Makes Knex start with a savepoint. */
  readonly transacting: boolean;

  constructor(config: Knex.Config & { place: 'inside' | 'outside' }) {
    super(config);
    this.transacting = config.place === 'inside';
  }

  /** Starts a savepoint. Throws outside a transaction, because a transaction must wait in the queue of writers. */
  override transaction(...args: Parameters<BetterSqlite3Client['transaction']>): Knex.Transaction {
    if (!this.transacting)
      throw new Error('a transaction must be started by the unit of work, which queues the writers');
    return super.transaction(...args);
  }

  override acquireConnection(): Promise<object> {
    return Promise.resolve({});
  }

  override releaseConnection(): Promise<void> {
    return Promise.resolve();
  }

  /** Runs a statement and translates its error. */
  override async query(connection: unknown, query: unknown): Promise<unknown> {
    try {
      return await super.query(connection, query);
    } catch (error) {
      throw translateError(sqlite, error);
    }
  }

  /** Runs the statement on the connection of the engine, and converts the result to the form that Knex expects. */
  override async _query(_connection: unknown, query: QueryObject): Promise<QueryObject> {
    const { runStatement } = this.config as { runStatement: RunStatement };
    const result = await runStatement(query.sql, query.bindings ?? []);
    query.response = result.rows ?? { changes: result.changes, lastInsertRowid: result.lastId };
    query.context = { lastID: result.lastId, changes: result.changes };
    return query;
  }
}
