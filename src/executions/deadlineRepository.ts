import type { Db } from '../database';
import type { Execution } from './execution';
import { type ExecutionRow, executionFromRow } from './executionRow';
import { statements } from './executionStatements';

/** What the server itself has to keep going, over all organizations. */
export class DeadlineRepository {
  constructor(private readonly db: Db) {}

  /** Executions whose earliest deadline has come, in its order. Of those that are not enqueued only what fell due after `spared`. Unix milliseconds. */
  async due(now: number, spared: number, limit: number): Promise<Execution[]> {
    return (await this.db.all<ExecutionRow>(statements.due, [now, spared, limit])).map(executionFromRow);
  }

  /** Removes executions with their logs that ended at that time (Unix milliseconds) or before, the oldest first; returns how many. */
  async forgetEnded(until: number, limit: number): Promise<number> {
    return (await this.db.all(statements.forgetEnded, [until, limit])).length;
  }

  /** The earliest deadline after a time; undefined if nothing is running. Unix milliseconds. */
  async nextAfter(time: number): Promise<number | undefined> {
    const [row] = await this.db.all<{ next_deadline: number | null }>(statements.nextDue, [time]);
    return row?.next_deadline ?? undefined;
  }

  /** All executions that are in transit, by organization and id. */
  async inTransit(): Promise<{ organizationId: string; id: string }[]> {
    const rows = await this.db.all<{ organization_id: string; id: string }>(statements.allInTransit, []);
    return rows.map((row) => ({ organizationId: row.organization_id, id: row.id }));
  }
}
