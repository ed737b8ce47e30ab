import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { splitIntoBatches } from '../../kernel/splitIntoBatches';
import { DeadlineTimer } from './deadlineTimer';
import { DeadlineRepository, type DueExecution } from '../store/deadlineRepository';
import type { Dispatcher } from '../dispatch/dispatcher';
import type { Execution } from '../execution';
import type { ExecutionEvent, Timer } from '../machine/executionEvent';
import { findExpiredTimer } from '../machine/executionTimes';
import type { ExecutionStore } from '../changes/executionStore';
import { EXECUTION_BATCH_SIZE } from '../store/openStatements';

/** The number of due executions that one query returns. They are processed in smaller batches. */
const DUE_PAGE_SIZE = 1000;
/**
 * How long brokers and gateways have after a start to deliver buffered messages, before deadlines that expired during
 * the downtime are processed.
 */
const GRACE_MS = 60_000;
/** How often to look for deadlines that another process stored. */
const CHECK_INTERVAL_MS = 5000;

interface DeadlineSchedulerOptions {
  readonly database: Database;
  readonly executionStore: ExecutionStore;
  readonly dispatcher: Dispatcher;
  readonly clock: Clock;
  readonly log: Logger;
}

/** What a sweep has failed to process and leaves for the next one. */
interface Skipped {
  /** Organizations whose transactions fail. */
  readonly organizationIds: Set<string>;
  readonly executionIds: Set<string>;
}

/**
 * Finishes executions at their deadline. There is one index over all deadlines with absolute times, so a restart loses
 * none.
 */
export class DeadlineScheduler {
  private readonly timer: DeadlineTimer;
  private startedAt = 0;
  private running: Promise<void> | undefined;
  private stopped = true;
  /** How many deadlines were added since the start. */
  private addedCount = 0;
  private isPending = true;

  constructor(private readonly options: DeadlineSchedulerOptions) {
    this.timer = new DeadlineTimer(options.clock, () => this.startSweep());
  }

  /** Starts processing deadlines. */
  start(): void {
    this.stopped = false;
    this.startedAt = this.options.clock.now();
    this.timer.set(this.startedAt);
  }

  /** Resolves when no sweep is running. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.timer.clear();
    await this.running;
  }

  /** Whether an execution may have a pending deadline: true until a sweep has found none. */
  get hasPendingDeadline(): boolean {
    return this.isPending;
  }

  /** Reports a new deadline, Unix milliseconds; undefined: none. */
  addDeadline(deadline: number | undefined): void {
    if (deadline === undefined) return;
    this.addedCount += 1;
    this.isPending = true;
    this.setTimer(deadline);
  }

  /** Starts a sweep at this time, Unix milliseconds, unless one starts earlier. */
  private setTimer(time: number): void {
    if (!this.stopped) this.timer.set(time);
  }

  /**
   * Processes what is due now, except deadlines that wait for the end of the grace period. Resolves after the commit
   * with the time (Unix milliseconds) up to which deadlines are processed. An execution that fails is logged and left
   * for the next sweep; it does not block others.
   */
  async sweep(): Promise<number> {
    const skipped: Skipped = { organizationIds: new Set(), executionIds: new Set() };
    for (;;) {
      const now = this.options.clock.now();
      // A processed execution may have another expired deadline, so the sweep is repeated until nothing is due.
      if ((await this.runPass(now, skipped)) === 0) return now;
    }
  }

  /**
   * Makes one pass over everything that is due and returns how many executions were processed. Adds to `skipped` what
   * fails.
   */
  private async runPass(now: number, skipped: Skipped): Promise<number> {
    // During the grace period, deadlines that expired while the server was down wait, unless the command never left the
    // server.
    const isInGracePeriod = now < this.startedAt + GRACE_MS;
    const downtimeEnd = isInGracePeriod ? this.startedAt : -1; // -1 is before all deadlines, so that none waits
    const deadlines = new DeadlineRepository(this.options.database.db);
    let processedCount = 0;
    for (let failedCount = 0; ;) {
      // Executions that failed are still due and come first, so they are skipped.
      const due = await deadlines.listDue(now, downtimeEnd, DUE_PAGE_SIZE, failedCount);
      if (due.length === 0) return processedCount;
      let pageCount = 0;
      for (const [organizationId, executions] of Map.groupBy(due, (execution) => execution.organizationId)) {
        pageCount += await this.processOrganization(organizationId, executions, now, skipped);
      }
      processedCount += pageCount;
      failedCount += due.length - pageCount;
    }
  }

  /** Processes the due executions of one organization in batches. Returns how many were processed. */
  private async processOrganization(
    organizationId: string,
    due: readonly DueExecution[],
    now: number,
    skipped: Skipped,
  ): Promise<number> {
    let processedCount = 0;
    for (const batch of splitIntoBatches(due, EXECUTION_BATCH_SIZE)) {
      if (skipped.organizationIds.has(organizationId)) break;
      const ids = batch.map(({ id }) => id).filter((id) => !skipped.executionIds.has(id));
      if (ids.length > 0) processedCount += await this.processBatch(organizationId, ids, now, skipped);
      await yieldToEventLoop();
    }
    return processedCount;
  }

  /** Processes a batch. If one execution makes it fail, processes them one by one. Returns how many were processed. */
  private async processBatch(
    organizationId: string,
    ids: readonly string[],
    now: number,
    skipped: Skipped,
  ): Promise<number> {
    try {
      return await this.applyExpiredTimers(organizationId, ids, now);
    } catch (error) {
      // A database error is temporary and affects the whole organization; any other error may be caused by one
      // execution.
      const isTemporary = error instanceof DomainError;
      if (isTemporary || ids.length === 1) {
        if (isTemporary) skipped.organizationIds.add(organizationId);
        else for (const id of ids) skipped.executionIds.add(id);
        const logLevel = isTemporary ? 'warn' : 'error';
        this.options.log[logLevel](
          { organization_id: organizationId, execution_ids: ids, error },
          'executions.deadline_failed',
        );
        return 0;
      }
      let processedCount = 0;
      for (const id of ids) processedCount += await this.processBatch(organizationId, [id], now, skipped);
      const probablyAllFail = processedCount === 0;
      if (probablyAllFail) skipped.organizationIds.add(organizationId);
      return processedCount;
    }
  }

  /**
   * Finishes or changes the executions by their expired timers, in one transaction. Also counts those that changed
   * concurrently.
   */
  private async applyExpiredTimers(organizationId: string, ids: readonly string[], now: number): Promise<number> {
    const { database, executionStore } = this.options;
    const executions = await new DeadlineRepository(database.db).listWithExpiredTimer(organizationId, ids);
    const changes = executions.flatMap((execution) => {
      const timer = findExpiredTimer(execution, now);
      return (
        (timer && executionStore.planAll(execution, this.listEvents(execution, timer), { source: 'scheduler' })) ?? []
      );
    });
    if (changes.length > 0)
      await database.transaction(async (db) => await executionStore.save(db, organizationId, changes));
    return changes.length;
  }

  /**
   * Returns the events of an expired timer. If the delivery timer expired and the command never left the server, the
   * event that it was not delivered comes first.
   */
  private listEvents(execution: Execution, timer: Timer): ExecutionEvent[] {
    const expiry: ExecutionEvent = { kind: 'timer', timer };
    return timer === 'delivery' ? this.options.dispatcher.cancelBefore(expiry, execution) : [expiry];
  }

  /** Starts a sweep of all expired deadlines, unless one is running. The timer starts the next one. */
  private startSweep(): void {
    if (this.stopped || this.running) return;
    this.running = this.runSweep().finally(() => {
      this.running = undefined;
      this.setTimer(this.options.clock.now() + CHECK_INTERVAL_MS);
    });
  }

  /** Processes all expired deadlines and sets the timer to the next one. */
  private async runSweep(): Promise<void> {
    try {
      const processedUntil = await this.sweep();
      const { addedCount } = this;
      const next = await new DeadlineRepository(this.options.database.db).findNextDeadline(processedUntil);
      if (next !== undefined) this.addDeadline(next);
      else if (addedCount === this.addedCount) this.isPending = false;
    } catch (error) {
      this.options.log.warn({ error }, 'executions.sweep_failed'); // the next sweep retries
    }
  }
}
