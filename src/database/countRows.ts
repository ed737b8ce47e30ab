import type { Db } from './db';
import { RESTORE_MARK } from './unfinishedRestore';

/**
 * Counts the rows of each table, by table name; empty for a database without tables. Reads all rows, so it is slow for
 * a large database.
 */
export async function countRows(db: Db): Promise<ReadonlyMap<string, number>> {
  const tables = await db.all<{ name: string }>({ name: 'database.tables', sql: (dialect) => dialect.tableNames }, []);
  const counts = new Map<string, number>();
  for (const { name } of tables.filter((table) => table.name !== RESTORE_MARK)) {
    const [row] = await db.knex(name).count<{ rows: number | string }[]>({ rows: '*' });
    counts.set(name, Number(row?.rows ?? 0));
  }
  return counts;
}
