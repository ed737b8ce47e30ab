import type { Db } from '../../database';
import type { Execution } from '../execution';
import { type ExecutionRow, executionFromRow } from './executionRow';
import { openStatements as statements } from './openStatements';

/** Nobody is served meanwhile, and each reading sorts all that the device has open. */
const PORTION = 200;

/** What a restore does to executions, over all organizations. */
export class RestoredRepository {
  constructor(private readonly db: Db) {}

  /** Some executions of one device that are not final, without their query; those that are queries come first. None: there are no more anywhere. */
  async someOpen(): Promise<Execution[]> {
    return (await this.db.all<ExecutionRow>(statements.openOfAnyDevice, [PORTION])).map(executionFromRow);
  }

  /** Leaves out so many positions of the events of every organization: a place to resume at that lies among them counts as one that is not kept any more. */
  async skipPositions(count: number): Promise<void> {
    await this.db.knex('organization_counters').where('name', 'execution_events').increment('value', count);
  }
}
