import { setTimeout as pause } from 'node:timers/promises';
import { createAccessRepositories, type DeletedOrganization } from '../access';
import { UnitOfWork, type Database, type Db } from '../database';
import type { Clock } from '../kernel/clock';
import type { Logger } from '../kernel/logger';
import { BackgroundWork } from '../telemetry';
import type { RemovalStep } from './removalSteps';

/** How soon a deletion by the CLI is noticed, in milliseconds. */
const CHECK_INTERVAL_MS = 2000;
/** Work in progress may add data to a deleted organization for this long, in milliseconds. */
const LATE_WRITE_WINDOW_MS = 10 * 60_000;
/** The retry interval of an organization in milliseconds, after a failure or while new data is possible. */
const RETRY_INTERVAL_MS = 60_000;
/** A step with more rows takes over 20 ms on a slow machine now and then; no caller waits for the removal. */
const DELETE_BATCH_SIZE = 500;

/** The dependencies of the removal. */
interface OrganizationRemovalOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Logger;
  /** Closes the connections of an organization. */
  readonly closeConnections: (organizationId: string) => Promise<void>;
  readonly steps: readonly RemovalStep[];
  /** Called once for an organization that has no data left and can receive none, in the transaction that records it. */
  readonly onRemoved: (organizationId: string, db: Db) => Promise<void>;
}

/**
 * Removes the data of deleted organizations in small steps while the server runs. The deletion is stored, so the next
 * start continues where this one stopped. A failure is logged, does not delay other organizations, and is retried a
 * minute later.
 */
export class OrganizationRemoval {
  private readonly stopping = new AbortController();
  private readonly work: BackgroundWork;
  private readonly uow;
  /** Organizations whose connections are closed. */
  private readonly disconnectedIds = new Set<string>();
  /** Organizations without remaining data. */
  private readonly emptyIds = new Set<string>();
  /** When the removal of an organization was last tried, on the monotonic clock, by organization id. */
  private readonly lastAttemptAtById = new Map<string, number>();
  private checkLoop: Promise<void> | undefined;
  private currentRemoval: Promise<void> | undefined;
  /** Resolved by `checkNow` to end the current pause. */
  private checkRequested = Promise.withResolvers<void>();

  constructor(private readonly options: OrganizationRemovalOptions) {
    this.work = new BackgroundWork({
      database: options.database,
      clock: options.clock,
      signal: this.stopping.signal,
      maxBatchSize: DELETE_BATCH_SIZE,
    });
    this.uow = new UnitOfWork(options.database, createAccessRepositories);
  }

  /** Starts the removal; the first check runs immediately. */
  start(): void {
    this.checkLoop ??= this.runCheckLoop();
  }

  /** Looks for deleted organizations immediately, because one was deleted in this process. */
  checkNow(): void {
    this.checkRequested.resolve();
  }

  /** Stops at the next pause, within milliseconds. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.checkLoop;
    await this.currentRemoval;
  }

  /** Looks for deleted organizations every CHECK_INTERVAL_MS, or when `checkNow` is called, until the server stops. */
  private async runCheckLoop(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      this.checkRequested = Promise.withResolvers();
      await this.processDeleted().catch((error: unknown) => this.recordFailure(error));
      // The pause rejects when the removal is stopped.
      const nextCheck = pause(CHECK_INTERVAL_MS, undefined, { signal, ref: false }).catch(() => {});
      await Promise.race([nextCheck, this.checkRequested.promise]);
    }
  }

  /** Closes the connections of all deleted organizations first, then removes their data in the background. */
  private async processDeleted(): Promise<void> {
    const deleted = await this.uow.repos.organizations.listDeleted();
    for (const { id } of deleted) if (!this.disconnectedIds.has(id) && this.isDue(id)) await this.closeConnections(id);
    this.currentRemoval ??= this.removeDue(deleted).finally(() => (this.currentRemoval = undefined));
  }

  /** Closes the connections of a deleted organization; after a failure they are closed with the next attempt. */
  private async closeConnections(id: string): Promise<void> {
    try {
      await this.options.closeConnections(id);
      this.disconnectedIds.add(id);
    } catch (error) {
      this.recordFailure(error, id);
    }
  }

  /** Removes the data of every organization whose connections are closed and whose retry interval is over. */
  private async removeDue(deleted: readonly DeletedOrganization[]): Promise<void> {
    for (const { id, deletedAt } of deleted) {
      if (!this.disconnectedIds.has(id) || !this.isDue(id) || this.stopping.signal.aborted) continue;
      await this.removeData(id, deletedAt).catch((error: unknown) => this.recordFailure(error, id));
    }
  }

  /** Whether the organization has not been tried within RETRY_INTERVAL_MS. */
  private isDue(id: string): boolean {
    const lastAttempt = this.lastAttemptAtById.get(id);
    return lastAttempt === undefined || this.options.clock.monotonic() - lastAttempt >= RETRY_INTERVAL_MS;
  }

  /**
   * Runs all steps for one organization. It is marked as empty only after LATE_WRITE_WINDOW_MS: calls that were running
   * when it was deleted may still add data.
   */
  private async removeData(id: string, deletedAt: number): Promise<void> {
    const { clock, log, steps } = this.options;
    const startedAt = clock.monotonic();
    for (const { name, remove } of steps) {
      await remove(id, this.work);
      log.debug({ organization_id: id, step: name }, 'organizations.removal_step');
    }
    this.lastAttemptAtById.set(id, clock.monotonic());
    const isFirstTime = !this.emptyIds.has(id); // later runs only remove what was added meanwhile
    if (isFirstTime) {
      log.info(
        { organization_id: id, duration_ms: Math.round(clock.monotonic() - startedAt) },
        'organizations.removed',
      );
    }
    this.emptyIds.add(id);
    if (clock.now() - deletedAt >= LATE_WRITE_WINDOW_MS) await this.markEmptied(id);
  }

  /** Records that the organization has no data left and can receive none, and forgets it. */
  private async markEmptied(id: string): Promise<void> {
    const { clock, log, onRemoved } = this.options;
    await this.uow.transaction(async ({ organizations }, db) => {
      await organizations.markEmptied(id, clock.now());
      await onRemoved(id, db);
    });
    log.debug({ organization_id: id }, 'organizations.purged');
    this.lastAttemptAtById.delete(id);
    this.emptyIds.delete(id);
    this.disconnectedIds.delete(id);
  }

  /** Logs a failure, unless the server stops, and delays the next attempt of this organization. */
  private recordFailure(error: unknown, id?: string): void {
    if (id !== undefined) this.lastAttemptAtById.set(id, this.options.clock.monotonic());
    if (!this.stopping.signal.aborted)
      this.options.log.warn({ err: error, organization_id: id }, 'organizations.removal_failed');
  }
}
