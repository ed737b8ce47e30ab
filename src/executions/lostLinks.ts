import type { Database } from '../database';
import { DeadlineRepository } from './deadlineRepository';
import type { Execution } from './execution';
import { ExecutionRepository } from './executionRepository';
import type { Ledger } from './ledger';

const CHUNK = 100;
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
    const { database } = this.options;
    const inTransit = await new DeadlineRepository(database.db).inTransit();
    for (const [organizationId, all] of Map.groupBy(inTransit, (row) => row.organizationId)) {
      for (let start = 0; start < all.length; start += CHUNK) {
        const ids = all.slice(start, start + CHUNK).map((row) => row.id);
        await this.mark(organizationId, async (executions) => [...(await executions.findAll(organizationId, ids)).values()], 'server');
      }
    }
  }

  /** Marks what is in transit over one connection, a hundred at a time; resolves when it is on disk. Does nothing once stopped: the next start does it. */
  async markConnection(organizationId: string, connectionId: string): Promise<void> {
    const marking = this.markPages(organizationId, connectionId);
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

  private async markPages(organizationId: string, connectionId: string): Promise<void> {
    for (let after: string | undefined = ''; after !== undefined && !this.stopped; ) {
      const from: string = after;
      const page = await this.mark(organizationId, async (executions) => await executions.inTransit(organizationId, connectionId, from, CHUNK), 'link');
      after = page.at(-1)?.id;
    }
  }

  private async mark(organizationId: string, read: (executions: ExecutionRepository) => Promise<Execution[]>, source: string): Promise<Execution[]> {
    const { database, ledger } = this.options;
    return await database.transaction(async (db) => {
      const executions = await read(new ExecutionRepository(db));
      await ledger.store(db, organizationId, executions.flatMap((execution) => ledger.plan(execution, LINK_LOST, { source }) ?? []));
      return executions;
    });
  }
}
