import type { Db } from './db';
import { RESTORE_MARK } from './halfRestored';

/** How many rows each table has, by its name; empty for a database without tables. Reads all of it, so it takes long for a large one. */
export async function rowCounts(db: Db): Promise<ReadonlyMap<string, number>> {
  const tables = await db.all<{ name: string }>({ name: 'database.tables', sql: (dialect) => dialect.tables }, []);
  const counts = new Map<string, number>();
  for (const { name } of tables.filter((table) => table.name !== RESTORE_MARK)) {
    const [row] = await db.knex(name).count<{ rows: number | string }[]>({ rows: '*' });
    counts.set(name, Number(row?.rows ?? 0));
  }
  return counts;
}
