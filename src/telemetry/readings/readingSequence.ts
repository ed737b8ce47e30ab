import type { Clock } from '../../kernel/clock';
import { getFirstPosition, type StoredReading } from './storedReading';

/** Called with the readings of an uplink once they are on disk. Must return quickly. */
type StoredListener = (organizationId: string, readings: readonly StoredReading[]) => void;

/** Called when readings with a position may be on disk that no StoredListener received. Must return quickly. */
type MissedListener = (organizationId: string, position: number) => void;

/** The positions of one organization. */
interface OrganizationPositions {
  /** The greatest position that was opened. */
  last: number;
  /** The positions that are not closed, in ascending order, because positions only grow. */
  readonly open: Set<number>;
}

/** A caller that waits until, in each of these organizations, all positions up to the given one are closed. */
interface Waiter {
  readonly lastByOrganization: Map<string, number>;
  readonly resolve: () => void;
}

/**
 * Assigns positions to readings: the order in which they are stored. Each organization has its own positions, because
 * clients see them and must not learn how much other organizations store. A position is open while its readings are
 * being stored. Uplinks are stored concurrently, so this class also tracks up to which position (the watermark) all
 * readings are on disk: the one before the first open position. All organizations share a lower bound: every position
 * that is opened later is greater.
 */
export class ReadingSequence {
  private readonly organizations = new Map<string, OrganizationPositions>();
  private readonly storedListeners = new Set<StoredListener>();
  private readonly missedListeners = new Set<MissedListener>();
  private readonly waiters = new Set<Waiter>();
  private lowerBound = 0;
  private lastStored = 0;

  constructor(private readonly clock: Clock) {}

  /**
   * Makes every later position greater than `position`, the greatest stored one. Called at start-up: positions are
   * derived from the clock, which may have been set back since the last run.
   */
  startAfter(position: number): void {
    this.lowerBound = Math.max(this.lowerBound, position);
    this.lastStored = Math.max(this.lastStored, position);
  }

  /**
   * Returns the greatest position of any organization that is known to be on disk. After a restart, positions continue
   * after it, whatever the clock shows.
   */
  getLastStored(): number {
    return this.lastStored;
  }

  /**
   * Opens a position for readings that are about to be stored. It is greater than all earlier positions of the
   * organization. The caller must close it or mark it as uncertain in any case.
   */
  open(organizationId: string): number {
    const positions = this.organizations.get(organizationId) ?? { last: this.lowerBound, open: new Set<number>() };
    this.organizations.set(organizationId, positions);
    positions.last = Math.max(getFirstPosition(this.clock.now()), positions.last + 1, this.lowerBound + 1);
    positions.open.add(positions.last);
    return positions.last;
  }

  /**
   * Closes a position: its readings are on disk, or will never be. Resolves the callers that waited only for positions
   * up to the new watermark.
   */
  close(organizationId: string, position: number): void {
    this.organizations.get(organizationId)?.open.delete(position);
    if (this.waiters.size === 0) return;
    const watermark = this.getWatermark(organizationId);
    for (const waiter of this.waiters) {
      const awaitedPosition = waiter.lastByOrganization.get(organizationId);
      if (awaitedPosition === undefined || watermark < awaitedPosition) continue;
      waiter.lastByOrganization.delete(organizationId);
      if (waiter.lastByOrganization.size > 0) continue;
      this.waiters.delete(waiter);
      waiter.resolve();
    }
  }

  /**
   * Marks a position whose commit outcome is unknown until `resolved` resolves. The position is closed then, after each
   * MissedListener was called.
   */
  markUncertain(organizationId: string, position: number, resolved: Promise<void>): void {
    void this.closeAfter(organizationId, position, resolved);
  }

  /**
   * Returns the watermark of an organization: all its readings up to this position are on disk, and no further readings
   * are stored with such a position.
   */
  getWatermark(organizationId: string): number {
    const positions = this.organizations.get(organizationId);
    const [firstOpen] = positions?.open ?? []; // the smallest one: positions are opened in ascending order
    return firstOpen === undefined ? (positions?.last ?? this.lowerBound) : firstOpen - 1;
  }

  /**
   * Returns the watermark of all organizations: all readings up to this position are on disk. Raises the lower
   * bound to this position, so that from now on no organization opens a position up to the watermark.
   */
  advanceGlobalWatermark(): number {
    const all = [...this.organizations.values()];
    // The first open position of each organization is the smallest one.
    const firstOpenPositions = all.flatMap(({ open }) => [...open].slice(0, 1));
    const watermark =
      firstOpenPositions.length > 0
        ? Math.min(...firstOpenPositions) - 1
        : Math.max(this.lowerBound, ...all.map(({ last }) => last));
    this.lowerBound = Math.max(this.lowerBound, watermark);
    // An organization whose last position is not above the lower bound needs no entry.
    for (const [organizationId, { last, open }] of this.organizations)
      if (open.size === 0 && last <= this.lowerBound) this.organizations.delete(organizationId);
    return watermark;
  }

  /** Resolves when all positions that are open now are closed, in all organizations. */
  async waitUntilAllClosed(): Promise<void> {
    const lastByOrganization = new Map(
      [...this.organizations].flatMap(([organizationId, { last, open }]) =>
        open.size > 0 ? [[organizationId, last] as const] : [],
      ),
    );
    if (lastByOrganization.size > 0)
      await new Promise<void>((resolve) => this.waiters.add({ lastByOrganization, resolve }));
  }

  /** Resolves when all positions of an organization that are open now are closed. */
  async waitUntilClosed(organizationId: string): Promise<void> {
    const positions = this.organizations.get(organizationId);
    if (positions && positions.open.size > 0)
      await new Promise<void>((resolve) =>
        this.waiters.add({ lastByOrganization: new Map([[organizationId, positions.last]]), resolve }),
      );
  }

  /**
   * Adds a listener for the readings of each uplink, called after their position is closed. Returns a function that
   * removes it.
   */
  onStored(listener: StoredListener): () => void {
    this.storedListeners.add(listener);
    return () => void this.storedListeners.delete(listener);
  }

  /** Adds a listener for uncertain positions, called before they are closed. Returns a function that removes it. */
  onMissed(listener: MissedListener): () => void {
    this.missedListeners.add(listener);
    return () => void this.missedListeners.delete(listener);
  }

  /** Passes readings to all listeners. The readings must be on disk and their position closed. */
  publish(organizationId: string, readings: readonly StoredReading[]): void {
    for (const { position } of readings) this.lastStored = Math.max(this.lastStored, position);
    for (const listener of this.storedListeners) listener(organizationId, readings);
  }

  /** Waits until the outcome of the commit is known, calls each MissedListener, then closes the position. */
  private async closeAfter(organizationId: string, position: number, resolved: Promise<void>): Promise<void> {
    await resolved;
    for (const listener of this.missedListeners) listener(organizationId, position);
    this.close(organizationId, position);
  }
}
