import type { Db } from '../../database';
import type { Execution } from '../execution';
import { type ExecutionRow, executionFromRow } from './executionRow';
import { openStatements as statements, PORTION } from './openStatements';

/** An execution, by its organization and its id. */
export interface DueExecution {
  readonly organizationId: string;
  readonly id: string;
}

/** A connection that something is on its way over. */
export interface LinkInUse {
  readonly organizationId: string;
  readonly connectionId: string;
}

/** What the server itself has to keep going, over all organizations. What it reads of executions is without their payload. */
export class DeadlineRepository {
  constructor(private readonly db: Db) {}

  /** Executions whose earliest deadline has come, in its order, without the first `skipped`. Of those that are not enqueued only what fell due after `spared`. Unix milliseconds. */
  async due(now: number, spared: number, limit: number, skipped: number): Promise<DueExecution[]> {
    const rows = await this.db.all<{ organization_id: string; id: string }>(statements.due, [now, spared, limit, skipped]);
    return rows.map((row) => ({ organizationId: row.organization_id, id: row.id }));
  }

  /** Those of at most PORTION executions that exist, for a timer: with their query only where a timer may ask it. Throws what is wrong with a row. */
  async toJudge(organizationId: string, ids: readonly string[]): Promise<Execution[]> {
    const unneeded = Array.from({ length: PORTION - ids.length }, () => ids[0] ?? '');
    return (await this.db.all<ExecutionRow>(statements.toJudge, [organizationId, ...ids, ...unneeded])).map(executionFromRow);
  }

  /** The executions of a connection that are in transit, without their query, in pages: `after` is the id of the last one of the page before. */
  async toMark(organizationId: string, connectionId: string, after: string): Promise<Execution[]> {
    return (await this.db.all<ExecutionRow>(statements.toMark, [organizationId, connectionId, after, PORTION])).map(executionFromRow);
  }

  /** Some executions of a device that are not final, without their query; none: there are no more. */
  async someOpenOfDevice(organizationId: string, deviceId: string): Promise<Execution[]> {
    return (await this.db.all<ExecutionRow>(statements.openOfDevice, [organizationId, deviceId, PORTION])).map(executionFromRow);
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

  /** All connections that something is in transit over. */
  async linksInUse(): Promise<LinkInUse[]> {
    const rows = await this.db.all<{ organization_id: string; connection_id: string }>(statements.linksInUse, []);
    return rows.map((row) => ({ organizationId: row.organization_id, connectionId: row.connection_id }));
  }
}
