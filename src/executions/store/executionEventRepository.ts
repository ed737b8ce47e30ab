import type { Db } from '../../database';
import type { ExecutionLogEntry } from '../execution';
import { type ExecutionEventRow, logEntryFromRow } from './executionRow';
import { statements } from './executionStatements';

/** Reads the event log of executions. Assumes a caller who may act in `organizationId`. */
export class ExecutionEventRepository {
  constructor(private readonly db: Db) {}

  /** Returns the log of one execution, in order. */
  async listOfExecution(organizationId: string, executionId: string): Promise<ExecutionLogEntry[]> {
    const rows = await this.db.all<ExecutionEventRow>(statements.eventsOf, [organizationId, executionId]);
    return rows.map(logEntryFromRow);
  }

  /** Returns the organization's events after a position, in order. */
  async listAfter(organizationId: string, position: number, limit: number): Promise<ExecutionLogEntry[]> {
    const rows = await this.db.all<ExecutionEventRow>(statements.eventsAfter, [organizationId, position, limit]);
    return rows.map(logEntryFromRow);
  }

  /** Returns the position of the organization's last event; 0 before the first. */
  async findLastPosition(organizationId: string): Promise<number> {
    const [row] = await this.db.all<{ value: number }>(statements.position, [organizationId]);
    return row?.value ?? 0;
  }
}
