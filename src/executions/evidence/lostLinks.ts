import { setImmediate as othersTurn } from 'node:timers/promises';
import type { Database } from '../../database';
import { DeadlineRepository } from '../store/deadlineRepository';
import type { Execution } from '../execution';
import type { Ledger } from '../ledger/ledger';

const LINK_LOST = { kind: 'link_lost' } as const;

/**
 * Marks what is in transit over a link that is gone (T14): nobody knows whether it arrived. Nothing is sent again and no state changes;
 * evidence that comes first wins, because it leaves nothing to mark.
 */
export class LostLinks {
  private readonly running = new Set<Promise<void>>();
  private stopped = false;

  constructor(private readonly options: { readonly database: Database; readonly ledger: Ledger }) {}

  /** Marks all that is in transit, whatever its connection: the server itself was away. */
  async markAll(): Promise<void> {
    for (const { organizationId, connectionId } of await new DeadlineRepository(this.options.database.db).linksInUse()) await this.markPages(organizationId, connectionId, 'server');
  }

  /** Marks what is in transit over one connection, a portion at a time; resolves when it is on disk. Does nothing once stopped: the next start does it. */
  async markConnection(organizationId: string, connectionId: string): Promise<void> {
    const marking = this.markPages(organizationId, connectionId, 'link');
    this.running.add(marking);
    try {
      await marking;
    } finally {
      this.running.delete(marking);
    }
  }

  /** Resolves when nothing is being marked any more. */
  async stop(): Promise<void> {
    this.stopped = true;
    await Promise.allSettled(this.running);
  }

  private async markPages(organizationId: string, connectionId: string, source: string): Promise<void> {
    for (let after: string | undefined = ''; after !== undefined && !this.stopped; ) {
      const page = await this.markPage(organizationId, connectionId, after, source);
      after = page.at(-1)?.id;
      await othersTurn();
    }
  }

  private async markPage(organizationId: string, connectionId: string, after: string, source: string): Promise<Execution[]> {
    const { database, ledger } = this.options;
    return await database.transaction(async (db) => {
      const executions = await new DeadlineRepository(db).toMark(organizationId, connectionId, after);
      await ledger.store(db, organizationId, executions.flatMap((execution) => ledger.plan(execution, LINK_LOST, { source }) ?? []));
      return executions;
    });
  }
}
