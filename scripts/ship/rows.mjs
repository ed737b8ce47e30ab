// Compares the rows of two databases of SQLite.
import { DatabaseSync } from 'node:sqlite';

// The search index of devices is made of their rows, and what SQLite keeps for itself is nobody's data.
const NO_DATA = /^(sqlite_|digital_devices_search|schema_migrations$)/;

/** All rows: table -> rows. The database may be one of a server that was killed. */
export function rowsOf(file) {
  const database = new DatabaseSync(file);
  try {
    const tables = database.prepare("select name from sqlite_schema where type = 'table' order by name").all().map(({ name }) => name).filter((name) => !NO_DATA.test(name));
    return new Map(tables.map((name) => [name, database.prepare(`select * from "${name}"`).all()]));
  } finally {
    database.close();
  }
}

/** The number of rows of all tables. */
export const countOf = (rows) => [...rows.values()].reduce((sum, { length }) => sum + length, 0);

/**
 * What of `before` is not in `after` as it was: rows by the columns that they had, but `changed` (`table.column`), and but rows that `mayDiffer`.
 * What came in addition is no fault.
 */
export function lostRows(before, after, changed = [], mayDiffer = () => false) {
  return [...before].flatMap(([table, rows]) => {
    if (!after.has(table)) return [`the table ${table} is not there any more`];
    const columns = Object.keys(rows[0] ?? {}).filter((column) => !changed.includes(`${table}.${column}`));
    const there = Map.groupBy(after.get(table), (row) => textOf(row, columns));
    const isThere = (row) => there.get(textOf(row, columns))?.pop() !== undefined; // each counts once
    return rows.filter((row) => !isThere(row) && !mayDiffer(table, row)).map((row) => `${table}: ${textOf(row, columns)}`);
  });
}

function textOf(row, columns) {
  return JSON.stringify(columns.map((column) => (row[column] instanceof Uint8Array ? Buffer.from(row[column]).toString('hex') : row[column])));
}
