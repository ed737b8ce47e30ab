import type { Knex } from 'knex';

/** Every difference between the engines. Nobody else asks which engine it is. */
export interface Dialect {
  readonly name: 'sqlite' | 'postgres';
  /** A unique index or primary key refused the write. */
  isUniqueViolation(error: unknown): boolean;
  /** A foreign key refused the write. */
  isForeignKeyViolation(error: unknown): boolean;
  /** The database cannot be reached, is full, locked or shut down: the caller may try again. */
  isUnavailable(error: unknown): boolean;
  /** Locks the rows of a query to the end of the transaction; nothing on SQLite, which has one writer. */
  lockForUpdate<Q extends Knex.QueryBuilder>(query: Q): Q;
  /** As lockForUpdate, at the end of the SQL of a hot statement. */
  readonly forUpdate: string;
  /** SQL at the end of `create table` that keeps the rows in the order of the primary key, where the engine can. */
  readonly clustered: string;
  /** SQL that gives the names of the tables of the program, each as `name`. */
  readonly tables: string;
  /** SQL of a text that is compared and ordered by its bytes, on both engines alike and whatever the language of the database. */
  byBytes(text: string): string;
  /** SQL of a JSON object with these members, each an SQL expression. */
  jsonObject(members: Readonly<Record<string, string>>): string;
  /** SQL of a JSON array of `element` (an SQL expression) over `from` (all that follows FROM), in the order of `orderBy`; `[]` for none. A column of its own: as a part of jsonObject it goes through jsonText. */
  jsonArray(element: string, from: string, orderBy: string): string;
  /** SQL of JSON as a part of jsonObject or jsonArray: of a column that holds it as text, or of a jsonArray. */
  jsonText(column: string): string;
  /**
   * Adds the condition that a device's name holds the text, whatever the case, served by an index for three or more characters.
   * `folded` is the text after foldName; the query's table is digital_devices under the alias `d`.
   */
  nameHolds<Q extends Knex.QueryBuilder>(query: Q, folded: string): Q;
  /** Makes the index behind nameHolds. Called once, by the migration that creates digital_devices. */
  createNameSearch(knex: Knex): Promise<void>;
  /** Drops it again. */
  dropNameSearch(knex: Knex): Promise<void>;
}

/** A name as it is searched and compared: composed, without case; the Greek sigma has one form, whether it ends a word or not. */
export function foldName(name: string): string {
  return name.normalize('NFC').toLowerCase().replaceAll('ς', 'σ').normalize('NFC');
}
