import type { Db } from '../../database';
import type { Execution } from '../execution';
import { type ExecutionRow, executionFromRow } from './executionRow';
import { openStatements as statements } from './openStatements';

/**
 * The maximum number of executions of one read: large, because each read sorts all open executions of the device, and
 * no server is running during a restore whose other work would wait.
 */
const READ_LIMIT = 200;

/** What a restore does to executions, across all organizations. */
export class RestoredRepository {
  constructor(private readonly db: Db) {}

  /**
   * Reads some executions of one device that are not final, without their query; executions that are queries come
   * first. Empty if there are no more in any organization.
   */
  async listOpenOfFirstDevice(): Promise<Execution[]> {
    return (await this.db.all<ExecutionRow>(statements.openOfAnyDevice, [READ_LIMIT])).map(executionFromRow);
  }

  /** Skips a number of event positions in every organization. A resume position among them counts as expired. */
  async skipPositions(count: number): Promise<void> {
    await this.db.knex('organization_counters').where('name', 'execution_events').increment('value', count);
  }
}
