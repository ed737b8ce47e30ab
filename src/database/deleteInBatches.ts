import { setImmediate } from 'node:timers/promises';
import type { Database } from './database';
import type { Db } from './db';

/**
 * Deletes rows in transactions of at most `batchSize` rows until a batch is not full. Other transactions can run
 * between two batches. `deleteBatch` deletes at most `limit` rows and returns how many it deleted.
 */
export async function deleteInBatches(
  database: Pick<Database, 'transaction'>,
  batchSize: number,
  deleteBatch: (db: Db, limit: number) => Promise<number>,
): Promise<void> {
  for (let deletedCount = batchSize; deletedCount === batchSize;) {
    deletedCount = await database.transaction(async (db) => await deleteBatch(db, batchSize));
    await setImmediate();
  }
}
