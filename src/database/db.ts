import type { Knex } from 'knex';
import type { Dialect } from './engines/dialect';

/** What a column holds on both engines: times are bigint milliseconds, booleans 0 or 1, JSON is text. */
export type SqlValue = string | number | null | Uint8Array;

/**
 * A statement of the hot path: written once, kept prepared by the engine, run without the query builder.
 * `sql` has `?` for each value; engine differences come from the dialect.
 */
export interface HotStatement {
  /** Unique in the program, for example `devices.get`; PostgreSQL keeps the prepared statement under it. */
  readonly name: string;
  readonly sql: (dialect: Dialect) => string;
}

/** The database as a repository sees it: the plain connection, or one transaction. Only repositories look inside. */
export interface Db {
  /** The query builder, bound to the connection or the transaction. */
  readonly knex: Knex;
  readonly dialect: Dialect;
  /** Runs a hot statement and returns its rows. Outside a transaction it reads committed data only. */
  all<Row>(statement: HotStatement, values: readonly SqlValue[]): Promise<Row[]>;
  /** Runs the action once the transaction is on disk; never if it is rolled back; at once outside a transaction. */
  afterCommit(action: () => void): void;
}
