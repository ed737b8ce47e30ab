// Compares the rows of two SQLite databases.
import { DatabaseSync } from 'node:sqlite';

// The search index is derived from the devices, and SQLite's own tables are not data.
const IGNORED_TABLES = /^(sqlite_|digital_devices_search|schema_migrations$)/;

/** Reads all rows: table -> rows. The server of the database may have been killed. */
export function readRows(file) {
  const database = new DatabaseSync(file);
  try {
    const tables = database
      .prepare("select name from sqlite_schema where type = 'table' order by name")
      .all()
      .map(({ name }) => name)
      .filter((name) => !IGNORED_TABLES.test(name));
    return new Map(tables.map((name) => [name, database.prepare(`select * from "${name}"`).all()]));
  } finally {
    database.close();
  }
}

/** Counts the rows of all tables. */
export const countRows = (rows) => [...rows.values()].reduce((sum, { length }) => sum + length, 0);

/**
 * Lists the rows of `before` that are not in `after` with the same values. Ignores new columns, the columns in `changed`
 * (`table.column`), additional rows, and rows that `mayDiffer`.
 */
export function findLostRows(before, after, changed = [], mayDiffer = () => false) {
  return [...before].flatMap(([table, rows]) => {
    if (!after.has(table)) return [`the table ${table} no longer exists`];
    const columns = Object.keys(rows[0] ?? {}).filter((column) => !changed.includes(`${table}.${column}`));
    const rowsByText = Map.groupBy(after.get(table), (row) => toText(row, columns));
    const hasRow = (row) => rowsByText.get(toText(row, columns))?.pop() !== undefined; // each row matches once
    return rows
      .filter((row) => !hasRow(row) && !mayDiffer(table, row))
      .map((row) => `${table}: ${toText(row, columns)}`);
  });
}

function toText(row, columns) {
  return JSON.stringify(
    columns.map((column) =>
      row[column] instanceof Uint8Array ? Buffer.from(row[column]).toString('hex') : row[column],
    ),
  );
}
