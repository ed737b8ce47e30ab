import type { Db, HotStatement } from '../../database';

const SIZE: HotStatement = { name: 'metrics.databaseSize', sql: () => 'select pg_database_size(current_database()) as bytes' };

/** How much a PostgreSQL database takes on its disk. */
export class PostgresSizeRepository {
  constructor(private readonly db: Db) {}

  /** All of its tables and indexes. */
  async bytes(): Promise<number | undefined> {
    const [row] = await this.db.all<{ bytes: number }>(SIZE, []);
    return row?.bytes;
  }
}
