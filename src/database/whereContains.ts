import type { Knex } from 'knex';

/**
 * Adds the condition that a column contains a text, in which `%` and `_` stand for themselves. Reads all rows of the
 * query; names of devices have an index, see Dialect.whereNameContains. `column`: its name, never user input.
 */
export function whereContains(query: Knex.QueryBuilder, column: string, text: string): void {
  const pattern = `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
  void query.whereRaw(String.raw`${column} like ? escape '\'`, [pattern]);
}
