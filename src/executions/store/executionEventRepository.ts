import type { Db } from '../../database';
import type { ExecutionLogEntry } from '../execution';
import { type ExecutionEventRow, logEntryFromRow } from './executionRow';
import { statements } from './executionStatements';

/** The event log of executions, to read. Assumes a caller allowed to act in `organizationId`. */
export class ExecutionEventRepository {
  constructor(private readonly db: Db) {}

  /** The log of one execution, in order. */
  async ofExecution(organizationId: string, executionId: string): Promise<ExecutionLogEntry[]> {
    const rows = await this.db.all<ExecutionEventRow>(statements.eventsOf, [organizationId, executionId]);
    return rows.map(logEntryFromRow);
  }

  /** The organization's events after a position, in order. */
  async after(organizationId: string, position: number, limit: number): Promise<ExecutionLogEntry[]> {
    const rows = await this.db.all<ExecutionEventRow>(statements.eventsAfter, [organizationId, position, limit]);
    return rows.map(logEntryFromRow);
  }

  /** The position of the organization's last event; 0 before the first. */
  async lastPosition(organizationId: string): Promise<number> {
    const [row] = await this.db.all<{ value: number }>(statements.position, [organizationId]);
    return row?.value ?? 0;
  }
}
