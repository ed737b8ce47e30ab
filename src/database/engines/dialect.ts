import type { Knex } from 'knex';

/** Every difference between the engines. No other code checks which engine it is. */
export interface Dialect {
  readonly name: 'sqlite' | 'postgres';
  /** A unique index or primary key rejected the write. */
  isUniqueViolation(error: unknown): boolean;
  /** A foreign key rejected the write. */
  isForeignKeyViolation(error: unknown): boolean;
  /** The database is unreachable, full, locked or shut down: the caller may retry. */
  isUnavailable(error: unknown): boolean;
  /** Locks the rows of a query until the end of the transaction; does nothing on SQLite, which has one writer. */
  lockForUpdate<Q extends Knex.QueryBuilder>(query: Q): Q;
  /** Like lockForUpdate, for the end of the SQL of a hot statement. */
  readonly forUpdate: string;
  /**
   * SQL for the end of `create table` that stores the rows in the order of the primary key, if the engine supports it.
   */
  readonly clustered: string;
  /** SQL that returns the names of the program's tables, each as `name`. */
  readonly tableNames: string;
  /** SQL of a text that is compared and ordered by its bytes, on both engines and in any database locale. */
  byBytes(text: string): string;
  /** SQL of a JSON object with these fields, each an SQL expression. */
  jsonObject(members: Readonly<Record<string, string>>): string;
  /**
   * SQL of a JSON array of `element` (an SQL expression) over `from` (everything after FROM), ordered by `orderBy`;
   * `[]` for no rows. Use it as a separate column; inside jsonObject it must be wrapped in jsonText.
   */
  jsonArray(element: string, from: string, orderBy: string): string;
  /** SQL of JSON as a part of jsonObject or jsonArray, from a text column with JSON or a jsonArray. */
  jsonText(column: string): string;
  /**
   * Adds the condition that a device's name contains the text, case-insensitively. An index serves it for three or more
   * characters. `normalizedText` is the text after normalizeForSearch; the query's table is digital_devices with the
   * alias `d`.
   */
  whereNameContains<Q extends Knex.QueryBuilder>(query: Q, normalizedText: string): Q;
  /** Creates the index for whereNameContains. Called once, by the migration that creates digital_devices. */
  createNameSearch(knex: Knex): Promise<void>;
  /** Drops the index of createNameSearch. */
  dropNameSearch(knex: Knex): Promise<void>;
}

/** Formats the arguments of the function that builds a JSON object: each name as a literal and its expression. */
export function formatPairs(members: Readonly<Record<string, string>>): string {
  return Object.entries(members)
    .map(([name, expression]) => `'${name}', ${expression}`)
    .join(', ');
}
