import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Database } from '../../database';
import { DeadlineRepository } from '../store/deadlineRepository';
import type { Execution } from '../execution';
import type { ExecutionStore } from '../changes/executionStore';

const LINK_LOST = { kind: 'link_lost' } as const;

/**
 * Marks the executions in transit over a lost link as `delivery_unconfirmed`, because it is unknown whether their
 * commands arrived. This is transition T14 of the state machine: nothing is sent again, and the executions stay
 * `in_transit`. Evidence that arrives first wins, because then the execution is no longer in transit.
 */
export class DisconnectHandler {
  private readonly running = new Set<Promise<void>>();
  private stopped = false;

  constructor(private readonly options: { readonly database: Database; readonly executionStore: ExecutionStore }) {}

  /** Marks all executions in transit on all connections, after the server itself was down. */
  async markAll(): Promise<void> {
    const connections = await new DeadlineRepository(this.options.database.db).listConnectionsInTransit();
    for (const { organizationId, connectionId } of connections)
      await this.markExecutionsInTransit(organizationId, connectionId, 'server');
  }

  /**
   * Marks the executions in transit over one connection; resolves when that is committed. Does nothing once stopped:
   * the next start does it.
   */
  async markConnection(organizationId: string, connectionId: string): Promise<void> {
    const marking = this.markExecutionsInTransit(organizationId, connectionId, 'link');
    this.running.add(marking);
    try {
      await marking;
    } finally {
      this.running.delete(marking);
    }
  }

  /** Resolves when no marking is in progress. */
  async stop(): Promise<void> {
    this.stopped = true;
    await Promise.allSettled(this.running);
  }

  /**
   * Marks the executions in transit over one connection page by page, with other work in between, until all are marked
   * or the server stops. `source`: what is recorded as the source of the events.
   */
  private async markExecutionsInTransit(organizationId: string, connectionId: string, source: string): Promise<void> {
    for (let after: string | undefined = ''; after !== undefined && !this.stopped;) {
      const page = await this.markPage(organizationId, connectionId, after, source);
      after = page.at(-1)?.id;
      await yieldToEventLoop();
    }
  }

  /** Marks one page of executions, after the id `after`. Returns the page; empty after the last one. */
  private async markPage(
    organizationId: string,
    connectionId: string,
    after: string,
    source: string,
  ): Promise<Execution[]> {
    const { database, executionStore } = this.options;
    return await database.transaction(async (db) => {
      const executions = await new DeadlineRepository(db).listInTransit(organizationId, connectionId, after);
      await executionStore.save(
        db,
        organizationId,
        executions.flatMap((execution) => executionStore.plan(execution, LINK_LOST, { source }) ?? []),
      );
      return executions;
    });
  }
}
