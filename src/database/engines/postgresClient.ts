import { knex as makeKnex, type Knex } from 'knex';
import PostgresDialect from 'knex/lib/dialects/postgres/index.js';
import { types } from 'pg';
import type { Logger } from '../../kernel/logger';
import { codeOf, translated } from '../translate';
import { postgres } from './postgres';
import { isRefusal, LostCommit } from './postgresCommits';

/** What a connection to PostgreSQL needs. */
export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`. */
  readonly url: string;
  /** The most connections at a time. */
  readonly poolSize: number;
  readonly readOnly: boolean;
  readonly log: Logger;
}

const READ_ONLY = '25006';
/** Knex's pool drops a connection that says this of itself. */
const DISPOSED = '__knex__disposed';
const INT8 = 20;
const NUMERIC = 1700;
const JSON_TYPES = new Set([114, 3802]);

/** Numbers are numbers and JSON is text, as on SQLite. */
const likeSqlite = {
  getTypeParser: (oid: number, format?: 'text' | 'binary'): unknown => {
    if (oid === INT8 || oid === NUMERIC) return Number;
    if (JSON_TYPES.has(oid)) return (text: string) => text;
    return types.getTypeParser(oid, format);
  },
};

const SESSION = "set idle_in_transaction_session_timeout = 30000; set default_transaction_isolation = 'read committed'";

/** A query builder over a pool of connections. Nothing is connected yet. `onError`: told of every error of a statement, as PostgreSQL says it. */
export function connect({ url, poolSize, readOnly, log }: PostgresOptions, onError: (error: unknown) => void = () => {}): Knex {
  const session = readOnly ? `${SESSION}; set default_transaction_read_only = on` : SESSION;
  const say = (level: 'warn' | 'debug') => (message: unknown) => log[level]({ message: String(message) }, 'database.knex');
  return makeKnex({
    client: PostgresClient,
    onError,
    connection: { connectionString: url, application_name: 'plantroom', keepAlive: true, connectionTimeoutMillis: 5000, types: likeSqlite } as Knex.PgConnectionConfig,
    pool: {
      min: 0,
      max: poolSize,
      afterCreate: (connection: { query(sql: string, done: (error: unknown) => void): void }, done: (error: unknown) => void) => connection.query(session, done),
    },
    acquireConnectionTimeout: 10_000,
    compileSqlOnError: false, // the values of a statement would stand in the message
    log: { warn: say('warn'), error: say('warn'), deprecate: say('debug'), debug: say('debug') },
  } as Knex.Config);
}

class RolledBack extends Error {
  constructor() {
    super('the transaction was rolled back because one of its statements had failed and its work went on');
  }
}

/** Knex's PostgreSQL with errors translated, and a commit that is believed only when it was one; LostCommit where nobody knows. */
export class PostgresClient extends PostgresDialect {
  override async acquireConnection(): Promise<unknown> {
    try {
      return await super.acquireConnection();
    } catch (error) {
      throw translated(postgres, error);
    }
  }

  override async query(connection: unknown, query: unknown): Promise<unknown> {
    const isCommit = query === 'COMMIT;';
    try {
      const answered = (await super.query(connection, query)) as { response?: { command?: string } };
      // PostgreSQL answers COMMIT with ROLLBACK, and no error, when a statement before it failed.
      if (isCommit && answered.response?.command === 'ROLLBACK') throw new RolledBack();
      return answered;
    } catch (error) {
      if (isCommit && !(error instanceof RolledBack) && !isRefusal(error)) throw new LostCommit((connection as { processID: number }).processID, error);
      throw this.heard(connection, error);
    }
  }

  /** An error of a statement, translated. A connection that is for reading only is not used again: the next one asks the database anew. */
  heard(connection: unknown, error: unknown): unknown {
    if (codeOf(error) === READ_ONLY) (connection as Record<string, unknown>)[DISPOSED] = error;
    (this.config as { onError: (error: unknown) => void }).onError(error);
    return translated(postgres, error);
  }
}
