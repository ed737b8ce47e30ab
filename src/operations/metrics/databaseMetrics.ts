import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Database } from '../../database';
import { counter, gauge, histogram, type Family } from './family';
import { PostgresSizeRepository } from './postgresSizeRepository';
import { remembered } from './remembered';

/** What is looked at of the database. */
export interface DatabaseSource {
  readonly database: Database;
  /** The folder of the SQLite file; undefined: it is PostgreSQL. */
  readonly sqliteFolder: string | undefined;
  /** Whether it answers; asked at most once a second. */
  readonly answers: () => Promise<boolean>;
}

const SIZE_FRESH_MS = 30_000;

/** What the database takes: time and space. */
export function databaseFamilies({ database, sqliteFolder, answers }: DatabaseSource): Family[] {
  const { times } = database;
  const ofPostgres = remembered(SIZE_FRESH_MS, async () => await new PostgresSizeRepository(database.db).bytes());
  const sizeOf = (name: string): number | undefined => (sqliteFolder === undefined ? undefined : statSync(join(sqliteFolder, name), { throwIfNoEntry: false })?.size);
  return [
    gauge('plantroom_database_up', '1 while the database answers, else 0.', async () => ((await answers()) ? 1 : 0)),
    counter('plantroom_database_transactions_total', 'Transactions: committed, refused (their work did not want them) or failed (the database could not).', 'result', times.results),
    histogram('plantroom_database_transaction_duration_seconds', 'Transactions, from when they were asked for until they were on disk or over.', times.transactions),
    histogram('plantroom_database_wait_duration_seconds', 'What transactions waited of that: for those before them (SQLite), or for a connection (PostgreSQL).', times.waits),
    histogram('plantroom_database_read_duration_seconds', 'Prepared reads outside of transactions.', times.reads),
    gauge('plantroom_database_transactions_open', 'Transactions that wait or run now.', () => times.open),
    gauge('plantroom_database_size_bytes', 'The size of the database: of the file without its log (SQLite), or of the whole database (PostgreSQL).', async () => sizeOf('plantroom.db') ?? (sqliteFolder === undefined ? await ofPostgres() : undefined)),
    gauge('plantroom_database_wal_size_bytes', 'The size of the write-ahead log (SQLite alone).', () => (sqliteFolder === undefined ? undefined : (sizeOf('plantroom.db-wal') ?? 0))),
  ];
}
