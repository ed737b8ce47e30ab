import type { Clock } from '../../kernel/clock';
import { POSITIONS_PER_MS, type StoredReading } from './storedReading';

/** Hears of the readings of an uplink once they are on disk. Returns at once. */
export type StoredListener = (organizationId: string, readings: readonly StoredReading[]) => void;

/**
 * The order in which readings are stored, over all organizations. Uplinks are stored beside each other, so it also knows up to where
 * all of them are on disk.
 */
export class ReadingPositions {
  // In their order, because they only grow.
  private readonly underway = new Set<number>();
  private readonly listeners = new Set<StoredListener>();
  private readonly waiting = new Set<{ readonly position: number; readonly resolve: () => void }>();
  private last = 0;

  constructor(private readonly clock: Clock) {}

  /** The greatest position that is stored, when the server starts: the clock may have been set back since. */
  startAfter(position: number): void {
    this.last = Math.max(this.last, position);
  }

  /** A position greater than all before, for readings that are about to be stored. It has to be closed, whatever comes of them. */
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

  /** Readings are on disk, and their position is closed: tells all who listen. */
  stored(organizationId: string, readings: readonly StoredReading[]): void {
    for (const listener of this.listeners) listener(organizationId, readings);
  }
}
