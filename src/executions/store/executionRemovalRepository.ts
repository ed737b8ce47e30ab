import type { Db, PreparedStatement } from '../../database';
import { ExecutionTriggerRepository } from './executionTriggerRepository';

/** The number of rows that one execution with its log counts for. */
const ROWS_OF_ONE = 10;

const REMOVE: PreparedStatement = {
  name: 'executions.deleteBatch',
  sql: () =>
    'delete from executions where id in (select e.id from executions e where e.organization_id = ? limit ?) returning id',
};

/** Deletes the executions of a deleted organization, after its devices. */
export class ExecutionRemovalRepository {
  constructor(private readonly db: Db) {}

  /** Deletes some executions with their logs, then trigger ids, about `max` rows. Returns how many were deleted. */
  async deleteBatch(organizationId: string, max: number): Promise<number> {
    const removed = (await this.db.all(REMOVE, [organizationId, Math.ceil(max / ROWS_OF_ONE)])).length;
    return removed > 0 ? removed : await new ExecutionTriggerRepository(this.db).deleteBatch(organizationId, max);
  }
}
