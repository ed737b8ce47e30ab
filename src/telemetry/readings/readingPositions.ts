import type { Clock } from '../../kernel/clock';
import { POSITIONS_PER_MS, type StoredReading } from './storedReading';

/** Hears of the readings of an uplink once they are on disk. Returns at once. */
export type StoredListener = (organizationId: string, readings: readonly StoredReading[]) => void;

/** Hears that readings with a position may be on disk which nobody was told of. Returns at once. */
export type MissedListener = (organizationId: string, position: number) => void;

/** What one organization has of them. */
interface OwnPositions {
  last: number;
  /** In their order, because they only grow. */
  readonly underway: Set<number>;
}

/** Somebody who waits until these positions, by organization, are closed with all before them. */
interface Waiter {
  readonly until: Map<string, number>;
  readonly resolve: () => void;
}

/**
 * The order in which readings are stored, in each organization its own: clients see it, and it must not tell how much others store. Uplinks
 * are stored beside each other, so it also knows up to where all of them are on disk.
 */
export class ReadingPositions {
  private readonly organizations = new Map<string, OwnPositions>();
  private readonly listeners = new Set<StoredListener>();
  private readonly missed = new Set<MissedListener>();
  private readonly waiting = new Set<Waiter>();
  /** Every position that is opened from now on is greater, in every organization. */
  private floor = 0;
  private lastOnDisk = 0;

  constructor(private readonly clock: Clock) {}

  /** The greatest position that is stored, when the server starts: the clock may have been set back since. */
  startAfter(position: number): void {
    this.floor = Math.max(this.floor, position);
    this.lastOnDisk = Math.max(this.lastOnDisk, position);
  }

  /** The greatest position of any organization that readings are known to be on disk with; the next start goes on after it, whatever the clock shows then. */
  lastStored(): number {
    return this.lastOnDisk;
  }

  /** A position greater than all before of the organization, for readings that are about to be stored. It has to be closed, or in doubt, whatever comes of them. */
  open(organizationId: string): number {
    let own = this.organizations.get(organizationId);
    if (!own) this.organizations.set(organizationId, (own = { last: this.floor, underway: new Set() }));
    own.last = Math.max(this.clock.now() * POSITIONS_PER_MS, own.last + 1, this.floor + 1);
    own.underway.add(own.last);
    return own.last;
  }

  /** What was to be stored with it is on disk, or never will be. */
  close(organizationId: string, position: number): void {
    this.organizations.get(organizationId)?.underway.delete(position);
    if (this.waiting.size === 0) return;
    const watermark = this.watermarkOf(organizationId);
    for (const waiter of this.waiting) {
      if (watermark < (waiter.until.get(organizationId) ?? Infinity)) continue;
      waiter.until.delete(organizationId);
      if (waiter.until.size > 0) continue;
      this.waiting.delete(waiter);
      waiter.resolve();
    }
  }

  /**
   * Nobody knows whether what was to be stored with it is on disk, until `over` resolves. Closes it then, and tells who listens that
   * there may be readings which nobody was told of.
   */
  doubt(organizationId: string, position: number, over: Promise<void>): void {
    void this.closeAfter(organizationId, position, over);
  }

  /** All readings of the organization with this position or a smaller one are on disk, and nothing of it is stored with such a one any more. */
  watermarkOf(organizationId: string): number {
    const own = this.organizations.get(organizationId);
    const [first] = own?.underway ?? [];
    return first === undefined ? (own?.last ?? this.floor) : first - 1;
  }

  /** The same for all organizations: from now on none stores anything with such a position. */
  watermark(): number {
    const all = [...this.organizations.values()];
    const underway = all.flatMap((own) => [...own.underway].slice(0, 1));
    const watermark = underway.length > 0 ? Math.min(...underway) - 1 : Math.max(this.floor, ...all.map(({ last }) => last));
    this.floor = Math.max(this.floor, watermark);
    // What is told by the floor need not be remembered.
    for (const [organizationId, { last, underway: open }] of this.organizations) if (open.size === 0 && last <= this.floor) this.organizations.delete(organizationId);
    return watermark;
  }

  /** Resolves when all that is being stored now is on disk, or has failed. */
  async settled(): Promise<void> {
    const until = new Map([...this.organizations].flatMap(([organizationId, { last, underway }]) => (underway.size > 0 ? [[organizationId, last] as const] : [])));
    if (until.size > 0) await new Promise<void>((resolve) => this.waiting.add({ until, resolve }));
  }

  /** The same for one organization. */
  async settledOf(organizationId: string): Promise<void> {
    const own = this.organizations.get(organizationId);
    if (own && own.underway.size > 0) await new Promise<void>((resolve) => this.waiting.add({ until: new Map([[organizationId, own.last]]), resolve }));
  }

  /** Calls the listener for the readings of each uplink after their position was closed. Returns how to end that. */
  onStored(listener: StoredListener): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  /** Calls the listener for each position that was in doubt, before it is closed. Returns how to end that. */
  onMissed(listener: MissedListener): () => void {
    this.missed.add(listener);
    return () => void this.missed.delete(listener);
  }

  /** Readings are on disk, and their position is closed: tells all who listen. */
  stored(organizationId: string, readings: readonly StoredReading[]): void {
    for (const { position } of readings) this.lastOnDisk = Math.max(this.lastOnDisk, position);
    for (const listener of this.listeners) listener(organizationId, readings);
  }

  private async closeAfter(organizationId: string, position: number, over: Promise<void>): Promise<void> {
    await over;
    for (const listener of this.missed) listener(organizationId, position);
    this.close(organizationId, position);
  }
}
