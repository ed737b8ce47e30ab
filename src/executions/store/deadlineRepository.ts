import type { Db } from '../../database';
import type { Execution } from '../execution';
import { type ExecutionRow, executionFromRow } from './executionRow';
import { openStatements as statements, EXECUTION_BATCH_SIZE } from './openStatements';

/** An execution, by its organization and its id. */
export interface DueExecution {
  readonly organizationId: string;
  readonly id: string;
}

/** A connection with executions in transit. */
interface ConnectionInTransit {
  readonly organizationId: string;
  readonly connectionId: string;
}

/**
 * Queries for the timers, lost links and retention of executions, also across all organizations. They read executions
 * without params and payload.
 */
export class DeadlineRepository {
  constructor(private readonly db: Db) {}

  /**
   * Returns executions whose earliest deadline expired, in deadline order, without the first `skipped`. Those that are
   * not enqueued are only included if they fell due after `downtimeEnd`. Unix milliseconds.
   */
  async listDue(now: number, downtimeEnd: number, limit: number, skipped: number): Promise<DueExecution[]> {
    const rows = await this.db.all<{ organization_id: string; id: string }>(statements.due, [
      now,
      downtimeEnd,
      limit,
      skipped,
    ]);
    return rows.map((row) => ({ organizationId: row.organization_id, id: row.id }));
  }

  /**
   * Reads the executions with these ids, at most EXECUTION_BATCH_SIZE, whose timer has expired. Their `query` (the
   * command that asks the device for its state) is read only in states in which a timer may send it. Throws if a row is
   * invalid.
   */
  async listWithExpiredTimer(organizationId: string, ids: readonly string[]): Promise<Execution[]> {
    // The statement has a fixed number of parameters, so the first id is repeated.
    const padding = Array.from({ length: EXECUTION_BATCH_SIZE - ids.length }, () => ids[0] ?? '');
    return (await this.db.all<ExecutionRow>(statements.withExpiredTimers, [organizationId, ...ids, ...padding])).map(
      executionFromRow,
    );
  }

  /**
   * Reads the executions in transit of a connection in pages, without their query: `after` is the last id of the
   * previous page.
   */
  async listInTransit(organizationId: string, connectionId: string, after: string): Promise<Execution[]> {
    return (
      await this.db.all<ExecutionRow>(statements.inTransitOnLostLink, [
        organizationId,
        connectionId,
        after,
        EXECUTION_BATCH_SIZE,
      ])
    ).map(executionFromRow);
  }

  /** Reads some executions of a device that are not final, without their query; empty if there are no more. */
  async listOpenOfDevice(organizationId: string, deviceId: string): Promise<Execution[]> {
    return (
      await this.db.all<ExecutionRow>(statements.openOfDevice, [organizationId, deviceId, EXECUTION_BATCH_SIZE])
    ).map(executionFromRow);
  }

  /**
   * Deletes executions that finished at or before `until` (Unix milliseconds) with their logs, oldest first. Returns
   * how many were deleted.
   */
  async deleteFinished(until: number, limit: number): Promise<number> {
    return (await this.db.all(statements.deleteFinished, [until, limit])).length;
  }

  /** Returns the earliest deadline after a time, Unix milliseconds; undefined if there is none. */
  async findNextDeadline(time: number): Promise<number | undefined> {
    const [row] = await this.db.all<{ next_deadline: number | null }>(statements.nextDeadline, [time]);
    return row?.next_deadline ?? undefined;
  }

  /** Returns all connections with executions in transit. */
  async listConnectionsInTransit(): Promise<ConnectionInTransit[]> {
    const rows = await this.db.all<{ organization_id: string; connection_id: string }>(
      statements.connectionsInTransit,
      [],
    );
    return rows.map((row) => ({ organizationId: row.organization_id, connectionId: row.connection_id }));
  }
}
