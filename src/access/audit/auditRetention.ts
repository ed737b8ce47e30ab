import { setImmediate } from 'node:timers/promises';
import type { Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import { DAY_MS } from '../../kernel/timeUnits';
import { AuditChainRepository } from './auditChainRepository';
import { AuditRepository, type AuditRow } from './auditRepository';
import { formatRemovedEvents } from './removedEvents';
import { RETENTION, createServerEvent } from './serverEvents';

/** Events per query or transaction: a few milliseconds. */
const DELETE_BATCH_SIZE = 250;

/** The last event that is older than the retention time. */
interface LastExpired {
  readonly seq: number;
  readonly hash: string;
  /** When the newest of the events up to this one started, Unix milliseconds. */
  readonly newest: number;
}

/**
 * Deletes the oldest events of each chain, which is the audit trail of one organization or of the installation. One
 * transaction moves the beginning of the chain and appends a server event with the range that is removed and the hash
 * from which the chain continues. Then the events before the beginning are deleted in small batches; after a crash the
 * next run deletes the rest. Verification accepts no other beginning.
 */
export class AuditRetention {
  constructor(
    private readonly deps: {
      readonly database: Database;
      readonly clock: Clock;
      readonly log: Logger;
      readonly retentionDays: number;
    },
  ) {}

  /**
   * Shortens every chain whose oldest event exceeds the retention time by a day. `signal`: stops between two batches.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { database, clock } = this.deps;
    const chains = new AuditChainRepository(database.db);
    const cutoff = clock.now() - this.deps.retentionDays * DAY_MS;
    for (
      let chain = await chains.findNextChain(undefined);
      chain !== undefined && !signal.aborted;
      chain = await chains.findNextChain(chain)
    ) {
      await this.shorten(chain, cutoff, signal);
    }
  }

  /**
   * Moves the beginning of a chain after the last event that started before `cutoff` (Unix milliseconds), and deletes
   * the events before the beginning, including those that an earlier run left.
   */
  private async shorten(chain: string, cutoff: number, signal: AbortSignal): Promise<void> {
    const { database, log } = this.deps;
    const chains = new AuditChainRepository(database.db);
    const ends = await chains.readEnds(chain);
    if (!ends) return; // the chain is corrupt, and verification needs all of it
    const lastExpired = await this.findLastExpired(chain, ends.firstSeq, cutoff, signal);
    const isShortened = lastExpired !== undefined && (await this.moveBeginning(chain, lastExpired));
    const firstRemaining = isShortened ? lastExpired.seq + 1 : ends.firstSeq;
    let deletedCount = DELETE_BATCH_SIZE; // a smaller number means that nothing is left to delete
    while (deletedCount === DELETE_BATCH_SIZE && !signal.aborted) {
      deletedCount = await chains.removeBefore(chain, firstRemaining, DELETE_BATCH_SIZE);
      await setImmediate(); // lets other work run
    }
    if (isShortened)
      log.info({ organization_id: chain, first: ends.firstSeq, last: lastExpired.seq }, 'audit.retention');
  }

  /**
   * Returns the last of the oldest events that exceed the retention time; undefined if the oldest event does not exceed
   * it by a day, so that each chain is shortened at most once a day. Stops at the first younger event, because a chain
   * may only lose events at its beginning.
   */
  private async findLastExpired(
    chain: string,
    firstSeq: number,
    cutoff: number,
    signal: AbortSignal,
  ): Promise<LastExpired | undefined> {
    const chains = new AuditChainRepository(this.deps.database.db);
    let lastExpired: LastExpired | undefined;
    // The sequence numbers of a chain have no gaps, so each batch starts where the previous one ended.
    for (let batchStart = firstSeq; ; batchStart += DELETE_BATCH_SIZE) {
      const rows = await chains.listFrom(chain, batchStart, DELETE_BATCH_SIZE);
      const isFirstBatch = batchStart === firstSeq;
      const oldestAt = rows[0]?.at ?? Infinity;
      if (isFirstBatch && oldestAt >= cutoff - DAY_MS) return undefined;
      for (const row of rows) {
        if (row.at >= cutoff) return lastExpired;
        lastExpired = addExpired(lastExpired, row);
      }
      if (rows.length < DELETE_BATCH_SIZE || signal.aborted) return lastExpired;
      await setImmediate(); // lets other work run
    }
  }

  /** Moves the beginning of a chain. Returns false if another process has already moved it that far. */
  private async moveBeginning(chain: string, lastExpired: LastExpired): Promise<boolean> {
    const { database, clock, retentionDays } = this.deps;
    return await database.transaction(async (db) => {
      const repository = new AuditRepository(db);
      const ends = await repository.lockChain(chain);
      if (lastExpired.seq < ends.firstSeq) return false;
      await repository.appendEvents(chain, ends, [
        createServerEvent(
          clock.now(),
          chain,
          RETENTION,
          formatRemovedEvents({ first: ends.firstSeq, ...lastExpired, days: retentionDays }),
        ),
      ]);
      await new AuditChainRepository(db).moveBeginning(chain, lastExpired);
      return true;
    });
  }
}

/** Returns the last expired event after one more expired row. `previous`: undefined for the first row. */
function addExpired(previous: LastExpired | undefined, { seq, hash, at }: AuditRow): LastExpired {
  return { seq, hash, newest: Math.max(at, previous?.newest ?? 0) };
}
