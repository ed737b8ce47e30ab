import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config';
import { openDatabase, SQLITE_FILE, type Database } from '../../database';
import { silentLogger } from '../../kernel/logger';

/** Whether there is a database to check: false before the first start with SQLite. */
export function hasDatabase({ database: { url }, data }: Config): boolean {
  return url !== '' || existsSync(join(data.dir, SQLITE_FILE));
}

/** Opens the database for reading, runs the work and closes it. Throws the errors of openDatabase and of the work. */
export async function readDatabase<T>(
  { database: { url }, data }: Config,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  const database = await openDatabase({ url, dataDir: data.dir, log: silentLogger, readOnly: true, poolSize: 2 });
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}
