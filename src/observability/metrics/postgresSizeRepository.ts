import type { Db, PreparedStatement } from '../../database';

const SIZE: PreparedStatement = {
  name: 'metrics.databaseSize',
  sql: () => 'select pg_database_size(current_database()) as bytes',
};

/** The size of a PostgreSQL database on its disk. */
export class PostgresSizeRepository {
  constructor(private readonly db: Db) {}

  /** Sums all its tables and indexes. */
  async getSizeInBytes(): Promise<number | undefined> {
    const [row] = await this.db.all<{ bytes: number }>(SIZE, []);
    return row?.bytes;
  }
}
