import { setTimeout as pause } from 'node:timers/promises';
import { accessRepositories, type DeletedOrganization } from '../access';
import { UnitOfWork, type Database } from '../database';
import type { Clock } from '../kernel/clock';
import type { Logger } from '../kernel/logger';
import { BackgroundWork } from '../telemetry';
import type { RemovalStep } from './removalSteps';

/** An organization that was deleted on the command line is noticed after so many milliseconds. */
const LOOK_EVERY_MS = 2000;
/** What was under way when an organization was deleted may leave something for so long, in milliseconds; it is looked after so often. */
const SETTLES_MS = 10 * 60_000;
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
  /** Told of an organization of which nothing is left. */
  readonly onRemoved: (organizationId: string) => void;
}

/**
 * Removes what deleted organizations leave, in small steps, while the server runs. That they are deleted is on disk, so a next start goes on
 * where this one ended. What fails is logged and holds up nothing else; the next look tries it again.
 */
export class OrganizationRemoval {
  private readonly stopping = new AbortController();
  private readonly work: BackgroundWork;
  private readonly uow;
  private readonly closed = new Set<string>();
  /** When those of which nothing was left were last looked through, on the clock that never jumps. */
  private readonly lookedThrough = new Map<string, number>();
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
    for (const { id } of deleted) {
      if (this.closed.has(id)) continue;
      await this.options.closeLinks(id);
      this.closed.add(id);
    }
    this.removing ??= this.removeDue(deleted).finally(() => (this.removing = undefined));
  }

  private async removeDue(deleted: readonly DeletedOrganization[]): Promise<void> {
    for (const { id, deletedAt } of deleted) {
      if (!this.isDue(id) || this.stopping.signal.aborted) continue;
      await this.removeAll(id, deletedAt).catch((error: unknown) => this.failed(error, id));
    }
  }

  private isDue(id: string): boolean {
    const before = this.lookedThrough.get(id);
    return before === undefined || this.options.clock.monotonic() - before >= AGAIN_EVERY_MS;
  }

  private async removeAll(id: string, deletedAt: number): Promise<void> {
    const { clock, log, steps, onRemoved } = this.options;
    const began = clock.monotonic();
    for (const { name, remove } of steps) {
      await remove(id, this.work);
      log.debug({ organization_id: id, step: name }, 'organizations.removal_step');
    }
    const isFirst = !this.lookedThrough.has(id);
    this.lookedThrough.set(id, clock.monotonic());
    if (isFirst) {
      log.info({ organization_id: id, duration_ms: Math.round(clock.monotonic() - began) }, 'organizations.removed');
      onRemoved(id);
    }
    if (clock.now() - deletedAt < SETTLES_MS) return;
    await this.uow.repos.organizations.markEmptied(id, clock.now());
    log.debug({ organization_id: id }, 'organizations.emptied');
    this.lookedThrough.delete(id);
    this.closed.delete(id);
  }

  private failed(error: unknown, id?: string): void {
    if (!this.stopping.signal.aborted) this.options.log.warn({ err: error, organization_id: id }, 'organizations.removal_failed');
  }
}
