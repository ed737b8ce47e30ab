import type { Clock } from '../../kernel/clock';
import { POSITIONS_PER_MS, type StoredReading } from './storedReading';

/** Hears of the readings of an uplink once they are on disk. Returns at once. */
export type StoredListener = (organizationId: string, readings: readonly StoredReading[]) => void;

/** Hears that readings with a position may be on disk which nobody was told of. Returns at once. */
export type MissedListener = (organizationId: string, position: number) => void;

/**
 * The order in which readings are stored, over all organizations. Uplinks are stored beside each other, so it also knows up to where
 * all of them are on disk.
 */
export class ReadingPositions {
  // In their order, because they only grow.
  private readonly underway = new Set<number>();
  private readonly listeners = new Set<StoredListener>();
  private readonly missed = new Set<MissedListener>();
  private readonly waiting = new Set<{ readonly position: number; readonly resolve: () => void }>();
  private last = 0;
  private lastOnDisk = 0;

  constructor(private readonly clock: Clock) {}

  /** The greatest position that is stored, when the server starts: the clock may have been set back since. */
  startAfter(position: number): void {
    this.last = Math.max(this.last, position);
    this.lastOnDisk = Math.max(this.lastOnDisk, position);
  }

  /** The greatest position that readings are known to be on disk with; the next start goes on after it, whatever the clock shows then. */
  lastStored(): number {
    return this.lastOnDisk;
  }

  /** A position greater than all before, for readings that are about to be stored. It has to be closed, or in doubt, whatever comes of them. */
  open(): number {
    this.last = Math.max(this.clock.now() * POSITIONS_PER_MS, this.last + 1);
    this.underway.add(this.last);
    return this.last;
  }

  /** What was to be stored with it is on disk, or never will be. */
  close(position: number): void {
    this.underway.delete(position);
    const watermark = this.watermark();
    for (const waiter of this.waiting) {
      if (waiter.position > watermark) continue;
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

  /** All readings with this position or a smaller one are on disk, and nothing is stored with such a one any more. */
  watermark(): number {
    const [first] = this.underway;
    return first === undefined ? this.last : first - 1;
  }

  /** Resolves when all that is being stored now is on disk, or has failed. */
  async settled(): Promise<void> {
    if (this.underway.size === 0) return;
    await new Promise<void>((resolve) => this.waiting.add({ position: this.last, resolve }));
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
    this.close(position);
  }
}
