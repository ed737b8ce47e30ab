import { knex as makeKnex, type Knex } from 'knex';
import PostgresDialect from 'knex/lib/dialects/postgres/index.js';
import { type Client, types } from 'pg';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { getCode, translateError } from '../translate';
import { postgres } from './postgres';
import { isCommitRejected, UnknownCommitError } from './unknownCommitTracker';
import { destroySocket } from './postgresConnections';

/** The options of a connection to PostgreSQL. */
export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`. */
  readonly url: string;
  /** The maximum number of connections. */
  readonly poolSize: number;
  readonly readOnly: boolean;
  /** How long the lease of a server lasts without a renewal, in milliseconds. */
  readonly leaseMs: number;
  readonly log: Logger;
}

/** The hooks of the engine. */
interface PoolHooks {
  /** Called with every error of a statement, as PostgreSQL reports it. */
  onError(error: unknown): void;
  /** Called with each new connection. */
  onConnection(connection: unknown): void;
  /** SQL for each new connection; a last row with `is_held: false` rejects it. */
  sessionSql(): string;
  /** Whether the database is known not to respond: then callers do not wait for a connection. */
  isUnreachable(): boolean;
}

/** SQLSTATE: a write in a read-only transaction. */
const READ_ONLY_CODE = '25006';
/** Knex's pool discards a connection that sets this. */
const DISPOSED = '__knex__disposed';
// The object ids (oid) of PostgreSQL's types; the last set: json and jsonb.
const INT8 = 20;
const NUMERIC = 1700;
const JSON_TYPES = new Set([114, 3802]);

/** Numbers are numbers and JSON is text, as on SQLite. */
const TYPE_PARSERS = {
  getTypeParser: (oid: number, format?: 'text' | 'binary'): unknown => {
    if (oid === INT8 || oid === NUMERIC) return Number;
    if (JSON_TYPES.has(oid)) return (text: string) => text;
    return types.getTypeParser(oid, format);
  },
};

const SESSION = "set idle_in_transaction_session_timeout = 30000; set default_transaction_isolation = 'read committed'";

type DoneCallback = (error: unknown) => void;
type SessionResult = { readonly rows: readonly { readonly is_held?: boolean }[] };
/** A new connection; the results are those of its statements. */
type NewConnection = { query(sql: string, done: (error: unknown, results: readonly SessionResult[]) => void): void };

/** An idle connection is probed by TCP after this time, and closed 10 s later if there is no response. */
const KEEP_ALIVE_MS = 5000;
const MAX_TERMINATION_MS = 1000;

/** Creates a query builder over a pool of connections. Does not connect yet. */
export function createPool({ url, poolSize, readOnly, log }: PostgresOptions, hooks: PoolHooks): Knex {
  const sessionSql = readOnly ? `${SESSION}; set default_transaction_read_only = on` : SESSION;
  const logMessage = (level: 'warn' | 'debug') => (message: unknown) =>
    log[level]({ message: String(message) }, 'database.knex');
  return makeKnex({
    client: PostgresClient,
    hooks,
    connection: {
      connectionString: url,
      application_name: 'plantroom',
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
      connectionTimeoutMillis: 5000,
      types: TYPE_PARSERS,
    } as Knex.PgConnectionConfig,
    pool: {
      min: 0,
      max: poolSize,
      afterCreate: (connection: NewConnection, done: DoneCallback) => {
        hooks.onConnection(connection);
        connection.query(`${sessionSql}; ${hooks.sessionSql()}`, (error, results) =>
          done(error ?? findLeaseLossError(results)),
        );
      },
    },
    acquireConnectionTimeout: 10_000,
    compileSqlOnError: false, // otherwise the values of a statement would be in the message
    log: {
      warn: logMessage('warn'),
      error: logMessage('warn'),
      deprecate: logMessage('debug'),
      debug: logMessage('debug'),
    },
  } as Knex.Config);
}

/**
 * Returns `database_unavailable` if the last statement of a new connection reported that this server does not hold the
 * lease any more; undefined: the connection may be used.
 */
function findLeaseLossError(results: readonly SessionResult[]): DomainError | undefined {
  if (results.at(-1)?.rows[0]?.is_held !== false) return undefined;
  return new DomainError(
    'unavailable',
    'database_unavailable',
    'another server took over the database and nothing was stored: try again',
  );
}

/** A commit that PostgreSQL turned into a rollback, because an earlier statement of the transaction had failed. */
class RolledBackError extends Error {
  constructor() {
    super('the transaction was rolled back because its work continued after one of its statements had failed');
  }
}

/**
 * Knex's PostgreSQL with translated errors, and commits that are verified; UnknownCommitError if the outcome is
 * unknown.
 */
export class PostgresClient extends PostgresDialect {
  private get hooks(): PoolHooks {
    return (this.config as { readonly hooks: PoolHooks }).hooks;
  }

  /**
   * Takes a connection from the pool; fails immediately if the database is known not to respond, instead of waiting for
   * the timeout.
   */
  override async acquireConnection(): Promise<unknown> {
    if (this.hooks.isUnreachable())
      throw translateError(postgres, new Error('Connection terminated: the database does not respond'));
    try {
      return await super.acquireConnection();
    } catch (error) {
      throw translateError(postgres, error);
    }
  }

  /**
   * Runs a statement and translates its error. A COMMIT that fails without a reliable response throws
   * UnknownCommitError, because it may have been stored.
   */
  override async query(connection: unknown, query: unknown): Promise<unknown> {
    const isCommit = query === 'COMMIT;';
    try {
      const result = (await super.query(connection, query)) as { response?: { command?: string } };
      // PostgreSQL answers COMMIT with ROLLBACK, without an error, if an earlier statement failed.
      if (isCommit && result.response?.command === 'ROLLBACK') throw new RolledBackError();
      return result;
    } catch (error) {
      if (isCommit && !(error instanceof RolledBackError) && !isCommitRejected(error))
        throw new UnknownCommitError((connection as { processID: number }).processID, error);
      throw this.handleStatementError(connection, error);
    }
  }

  /**
   * Reports and translates an error of a statement. If the server accepts no writes (it is a standby, for example after
   * a failover), the pool discards the connection, and the next statement opens a new one.
   */
  handleStatementError(connection: unknown, error: unknown): unknown {
    if (getCode(error) === READ_ONLY_CODE) (connection as Record<string, unknown>)[DISPOSED] = error;
    this.hooks.onError(error);
    return translateError(postgres, error);
  }

  /** Sends the termination message to the database, which may have ended already. */
  override async destroyRawConnection(connection: unknown): Promise<void> {
    const client = connection as Client;
    const timer = setTimeout(() => destroySocket(client), MAX_TERMINATION_MS);
    await client.end().finally(() => clearTimeout(timer));
  }
}
