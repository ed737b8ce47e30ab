import { setTimeout as sleep } from 'node:timers/promises';
import type { Database, Db } from '../../database';
import type { Clock } from '../../kernel/clock';

/** How long the work may take, without the commit of a step, until it pauses. */
const MAX_WORK_MS = 5;
/** How long a step may take with its commit, which depends more on the disk than on the rows. */
const MAX_STEP_MS = 20;
const MAX_PAUSE_MS = 50;
const MIN_BATCH_SIZE = 20;
const INITIAL_BATCH_SIZE = 200;
const MAX_BATCH_SIZE = 2000;
/** The initial number of items per page. Each item may need a few reads from a cold disk. */
const INITIAL_PAGE_SIZE = 20;
const MAX_PAGE_SIZE = 200;

/** Dependencies of BackgroundWork. */
interface BackgroundOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** Stops the work at the next pause: its methods then throw the reason of the signal. */
  readonly signal: AbortSignal;
  /** The maximum number of rows that a step writes; default 2000. */
  readonly maxBatchSize?: number;
}

/**
 * Runs background work in small parts and pauses after each one for as long as it took, so that at least half of the
 * time is left for other work and calls are not delayed noticeably. A part is a step (one transaction that writes), or
 * several reads. The number of rows per step and per page adapts, so that a part takes about MAX_WORK_MS.
 */
export class BackgroundWork {
  private lastPauseEndedAt: number;
  private batchSize: number;
  private pageSize = INITIAL_PAGE_SIZE;

  constructor(private readonly options: BackgroundOptions) {
    this.lastPauseEndedAt = options.clock.monotonic();
    this.batchSize = Math.min(INITIAL_BATCH_SIZE, this.maxBatchSize);
  }

  /**
   * If the last pause ended at least 5 ms ago, pauses for as long as the work since then took. Call it between reads.
   */
  async pauseIfDue(): Promise<void> {
    const { clock, signal } = this.options;
    signal.throwIfAborted();
    const workMs = clock.monotonic() - this.lastPauseEndedAt;
    if (workMs < MAX_WORK_MS) return;
    await this.pause(workMs);
  }

  /**
   * Reads the next page of a list, then pauses if that is due. `read` gets the page size, which adapts to the time that
   * the reads take. `isLast`: it is the last page.
   */
  async readPage<Item>(
    read: (limit: number) => Promise<Item[]>,
  ): Promise<{ readonly items: Item[]; readonly isLast: boolean }> {
    const limit = this.pageSize;
    const startedAt = this.options.clock.monotonic();
    const items = await read(limit);
    const readMs = this.options.clock.monotonic() - startedAt;
    if (readMs > MAX_WORK_MS) this.pageSize = Math.max(1, Math.floor(limit / 2));
    else if (readMs < MAX_WORK_MS / 2) this.pageSize = Math.min(MAX_PAGE_SIZE, limit * 2);
    await this.pauseIfDue();
    return { items, isLast: items.length < limit };
  }

  /**
   * Runs one step in its own transaction, then pauses for as long as the step took. The step may write at most
   * `maxRows` rows; the limit adapts to the time that the steps take. A step that does several things must end after
   * the current one when `isTimeUp` returns true.
   */
  async runStep<T>(work: (db: Db, maxRows: number, isTimeUp: () => boolean) => Promise<T>): Promise<T> {
    const { database, clock, signal } = this.options;
    signal.throwIfAborted();
    let startedAt = 0; // set when the transaction has started, so that the wait for other writers does not count
    let workMs = 0;
    const result = await database.transaction(async (db) => {
      startedAt = clock.monotonic();
      const value = await work(db, this.batchSize, () => clock.monotonic() - startedAt > MAX_WORK_MS);
      workMs = clock.monotonic() - startedAt;
      return value;
    });
    const totalMs = clock.monotonic() - startedAt;
    this.adaptBatchSize(workMs, totalMs);
    await this.pause(totalMs);
    return result;
  }

  private get maxBatchSize(): number {
    return this.options.maxBatchSize ?? MAX_BATCH_SIZE;
  }

  /** Pauses for this time, but between 1 and 50 ms. */
  private async pause(milliseconds: number): Promise<void> {
    await sleep(Math.max(1, Math.min(milliseconds, MAX_PAUSE_MS)));
    this.lastPauseEndedAt = this.options.clock.monotonic();
  }

  /**
   * Halves the maximum number of rows after a slow step and doubles it after a fast one. `workMs`: the time of the step
   * without its commit; `totalMs`: with its commit.
   */
  private adaptBatchSize(workMs: number, totalMs: number): void {
    const minBatchSize = Math.min(MIN_BATCH_SIZE, this.maxBatchSize);
    if (workMs > MAX_WORK_MS || totalMs > MAX_STEP_MS)
      this.batchSize = Math.max(minBatchSize, Math.floor(this.batchSize / 2));
    else if (workMs < MAX_WORK_MS / 2) this.batchSize = Math.min(this.maxBatchSize, this.batchSize * 2);
  }
}
