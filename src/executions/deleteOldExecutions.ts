import { type Database, deleteInBatches } from '../database';
import { DeadlineRepository } from './store/deadlineRepository';
import { ExecutionTriggerRepository } from './store/executionTriggerRepository';

const DELETE_BATCH_SIZE = 200;
const RETENTION_MS = 365 * 24 * 3_600_000;

/**
 * Deletes executions that finished more than 365 days before `now` (Unix milliseconds), with their logs, and expired
 * trigger ids, in batches.
 */
export async function deleteOldExecutions(database: Database, now: number): Promise<void> {
  await deleteInBatches(
    database,
    DELETE_BATCH_SIZE,
    async (db, limit) => await new DeadlineRepository(db).deleteFinished(now - RETENTION_MS, limit),
  );
  await deleteInBatches(
    database,
    DELETE_BATCH_SIZE,
    async (db, limit) => await new ExecutionTriggerRepository(db).deleteExpired(now, limit),
  );
}
