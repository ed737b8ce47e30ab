import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Database } from '../../database';
import { counter, gauge, histogram, type MetricFamily } from './metricFamily';
import { PostgresSizeRepository } from './postgresSizeRepository';
import { memoizeFor } from './memoizeFor';

/** The sources of the database metrics. */
export interface DatabaseSource {
  readonly database: Database;
  /** The folder of the SQLite file; undefined for PostgreSQL. */
  readonly sqliteFolder: string | undefined;
  /** Whether it responds; asked at most once a second. */
  readonly isResponding: () => Promise<boolean>;
}

const SIZE_CACHE_MS = 30_000;

/** Creates the metrics of the time and space that the database uses. */
export function createDatabaseFamilies({ database, sqliteFolder, isResponding }: DatabaseSource): MetricFamily[] {
  const { metrics } = database;
  const readPostgresSize = memoizeFor(
    SIZE_CACHE_MS,
    async () => await new PostgresSizeRepository(database.db).getSizeInBytes(),
  );
  const getFileSize = (name: string): number | undefined =>
    sqliteFolder === undefined ? undefined : statSync(join(sqliteFolder, name), { throwIfNoEntry: false })?.size;
  return [
    gauge('plantroom_database_up', '1 if the database responds, else 0.', async () => ((await isResponding()) ? 1 : 0)),
    counter(
      'plantroom_database_transactions_total',
      'Transactions: committed, refused (rolled back by the application) or failed (database error).',
      'result',
      metrics.results,
    ),
    histogram(
      'plantroom_database_transaction_duration_seconds',
      'Duration of transactions, from the request to the commit or rollback.',
      metrics.transactions,
    ),
    histogram(
      'plantroom_database_queue_duration_seconds',
      'The part of it spent waiting for earlier transactions (SQLite) or for a connection (PostgreSQL).',
      metrics.waits,
    ),
    histogram(
      'plantroom_database_read_duration_seconds',
      'Duration of prepared reads outside of transactions.',
      metrics.reads,
    ),
    gauge('plantroom_database_transactions_open', 'Transactions that wait or run.', () => metrics.openTransactionCount),
    gauge(
      'plantroom_database_size_bytes',
      'Size of the database: the file without its log (SQLite) or the complete database (PostgreSQL).',
      async () => getFileSize('plantroom.db') ?? (sqliteFolder === undefined ? await readPostgresSize() : undefined),
    ),
    gauge('plantroom_database_wal_size_bytes', 'Size of the write-ahead log (SQLite only).', () =>
      sqliteFolder === undefined ? undefined : (getFileSize('plantroom.db-wal') ?? 0),
    ),
  ];
}
