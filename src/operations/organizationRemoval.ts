import { setTimeout as pause } from 'node:timers/promises';
import { accessRepositories, type DeletedOrganization } from '../access';
import { UnitOfWork, type Database, type Db } from '../database';
import type { Clock } from '../kernel/clock';
import type { Logger } from '../kernel/logger';
import { BackgroundWork } from '../telemetry';
import type { RemovalStep } from './removalSteps';

/** An organization that was deleted on the command line is noticed after so many milliseconds. */
const LOOK_EVERY_MS = 2000;
/** What was under way when an organization was deleted may leave something for so long, in milliseconds. */
const SETTLES_MS = 10 * 60_000;
/** One is tried again so often, in milliseconds, whether something failed or something may still come. */
const AGAIN_EVERY_MS = 60_000;
/** A step with more rows takes over 20 ms on a slow machine now and then; nobody waits for the removal. */
const MOST_ROWS = 500;

/** What it needs. */
export interface OrganizationRemovalOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Logger;
  /** Ends what goes on over the connections of an organization. */
  readonly closeLinks: (organizationId: string) => Promise<void>;
  readonly steps: readonly RemovalStep[];
  /** Told once of an organization of which nothing is left and nothing can come any more, in the transaction that notes it. */
  readonly onRemoved: (organizationId: string, db: Db) => Promise<void>;
}

/**
 * Removes what deleted organizations leave, in small steps, while the server runs. That they are deleted is on disk, so a next start goes on
 * where this one ended. What fails is logged and holds up nothing else; it is tried again a minute later.
 */
export class OrganizationRemoval {
  private readonly stopping = new AbortController();
  private readonly work: BackgroundWork;
  private readonly uow;
  private readonly closed = new Set<string>();
  /** Those of which nothing was left. */
  private readonly removed = new Set<string>();
  /** When each was last tried, on the clock that never jumps. */
  private readonly tried = new Map<string, number>();
  private looking: Promise<void> | undefined;
  private removing: Promise<void> | undefined;
  private wake = Promise.withResolvers<void>();

  constructor(private readonly options: OrganizationRemovalOptions) {
    this.work = new BackgroundWork({ database: options.database, clock: options.clock, signal: this.stopping.signal, most: MOST_ROWS });
    this.uow = new UnitOfWork(options.database, accessRepositories);
  }

  /** Begins at once. */
  start(): void {
    this.looking ??= this.keepLooking();
  }

  /** An organization was deleted in this process. */
  look(): void {
    this.wake.resolve();
  }

  /** Ends at the next pause, within milliseconds. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.looking;
    await this.removing;
  }

  private async keepLooking(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      this.wake = Promise.withResolvers();
      await this.notice().catch((error: unknown) => this.failed(error));
      await Promise.race([pause(LOOK_EVERY_MS, undefined, { signal, ref: false }).catch(() => {}), this.wake.promise]); // told to stop
    }
  }

  /** Links are closed at once, however much there is to remove. */
  private async notice(): Promise<void> {
    const deleted = await this.uow.repos.organizations.listDeleted();
    for (const { id } of deleted) if (!this.closed.has(id) && this.isDue(id)) await this.close(id);
    this.removing ??= this.removeDue(deleted).finally(() => (this.removing = undefined));
  }

  private async close(id: string): Promise<void> {
    try {
      await this.options.closeLinks(id);
      this.closed.add(id);
    } catch (error) {
      this.failed(error, id);
    }
  }

  private async removeDue(deleted: readonly DeletedOrganization[]): Promise<void> {
    for (const { id, deletedAt } of deleted) {
      if (!this.closed.has(id) || !this.isDue(id) || this.stopping.signal.aborted) continue;
      await this.removeAll(id, deletedAt).catch((error: unknown) => this.failed(error, id));
    }
  }

  private isDue(id: string): boolean {
    const before = this.tried.get(id);
    return before === undefined || this.options.clock.monotonic() - before >= AGAIN_EVERY_MS;
  }

  private async removeAll(id: string, deletedAt: number): Promise<void> {
    const { clock, log, steps } = this.options;
    const began = clock.monotonic();
    for (const { name, remove } of steps) {
      await remove(id, this.work);
      log.debug({ organization_id: id, step: name }, 'organizations.removal_step');
    }
    this.tried.set(id, clock.monotonic());
    if (!this.removed.has(id)) log.info({ organization_id: id, duration_ms: Math.round(clock.monotonic() - began) }, 'organizations.removed');
    this.removed.add(id);
    if (clock.now() - deletedAt >= SETTLES_MS) await this.markEmptied(id);
  }

  private async markEmptied(id: string): Promise<void> {
    const { clock, log, onRemoved } = this.options;
    await this.uow.transaction(async ({ organizations }, db) => {
      await organizations.markEmptied(id, clock.now());
      await onRemoved(id, db);
    });
    log.debug({ organization_id: id }, 'organizations.emptied');
    this.tried.delete(id);
    this.removed.delete(id);
    this.closed.delete(id);
  }

  private failed(error: unknown, id?: string): void {
    if (id !== undefined) this.tried.set(id, this.options.clock.monotonic());
    if (!this.stopping.signal.aborted) this.options.log.warn({ err: error, organization_id: id }, 'organizations.removal_failed');
  }
}
