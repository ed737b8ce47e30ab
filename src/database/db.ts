import type { Knex } from 'knex';
import type { Dialect } from './engines/dialect';

/** The values of a column on both engines: times are bigint milliseconds, booleans 0 or 1, JSON is text. */
export type SqlValue = string | number | null | Uint8Array;

/**
 * A statement of the hot path: defined once, prepared by the engine, and run without the query builder. `sql` has `?`
 * for each value; the dialect provides the engine differences.
 */
export interface PreparedStatement {
  /** Unique in the program, for example `devices.get`. PostgreSQL uses it as the name of the prepared statement. */
  readonly name: string;
  readonly sql: (dialect: Dialect) => string;
}

/**
 * The database as a repository sees it: the plain connection, or one transaction. Only repositories use its members.
 */
export interface Db {
  /** The query builder, bound to the connection or the transaction. */
  readonly knex: Knex;
  readonly dialect: Dialect;
  /** Runs a hot statement and returns its rows. Outside a transaction it reads committed data only. */
  all<Row>(statement: PreparedStatement, values: readonly SqlValue[]): Promise<Row[]>;
  /**
   * Runs the action after the transaction is on disk; never if it is rolled back; immediately outside a transaction.
   */
  afterCommit(action: () => void): void;
}
