import type { ReadingSequence } from '../readings/readingSequence';
import type { StoredReading } from '../readings/storedReading';
import { estimateReadingSize } from './readingSize';

// The maximum size of the buffered readings of one reader, in bytes as they are sent. This is enough for numbers of
// more than two seconds at 15,000 readings per second. Beyond it, the reader must catch up from the database.
const MAX_PENDING_BYTES = 4 * 1024 * 1024;

/**
 * Buffers the readings of an organization for one reader as they are stored. Readings that do not fit are skipped; the
 * reader then has to catch up from the database. Positions are the order in which readings are stored; the watermark is
 * the position up to which all readings of the organization are on disk.
 */
export class LiveReadings {
  private pending: StoredReading[] = [];
  private pendingBytes = 0;
  /** The greatest position that was skipped since the last restart; 0 if none was. */
  private lastSkipped = 0;
  private wake: (() => void) | undefined;
  private readonly removeListeners: () => void;

  /**
   * Listens from now on until `close`. `isRelevant` returns whether the reader may want the readings of a sensor.
   * `wait` also resolves when the signal aborts.
   */
  constructor(
    private readonly positions: ReadingSequence,
    private readonly organizationId: string,
    isRelevant: (sensorId: string) => boolean,
    private readonly signal: AbortSignal,
  ) {
    const wake = (): void => this.wake?.();
    signal.addEventListener('abort', wake);
    const removeStoredListener = positions.onStored((changedOrganizationId, readings) => {
      if (changedOrganizationId === organizationId) this.add(readings.filter(({ sensorId }) => isRelevant(sensorId)));
    });
    const removeMissedListener = positions.onMissed((changedOrganizationId, position) => {
      if (changedOrganizationId === organizationId) this.markSkipped(position);
    });
    this.removeListeners = () => {
      signal.removeEventListener('abort', wake);
      removeStoredListener();
      removeMissedListener();
    };
  }

  /** Whether readings were skipped, so that the reader has to catch up. */
  get isBehind(): boolean {
    return this.lastSkipped > 0;
  }

  /**
   * Returns and removes the buffered readings. Unless the reader is behind, they are all relevant readings up to
   * `until` since the last call.
   */
  drain(): { readonly readings: StoredReading[]; readonly until: number } {
    const readings = this.pending;
    this.pending = [];
    this.pendingBytes = 0;
    return { readings, until: this.advanceWatermark() };
  }

  /**
   * Starts again: resolves to a position up to which all readings are on disk. The reader must read the readings up to
   * this position from the database; `drain` returns the readings after it.
   */
  async restart(): Promise<number> {
    // Readings that were skipped, or published before this object listened, may come after some that are still being
    // stored.
    await this.positions.waitUntilClosed(this.organizationId);
    const until = this.advanceWatermark();
    if (this.lastSkipped <= until) this.lastSkipped = 0;
    this.pending = this.pending.filter(({ position }) => position > until);
    this.pendingBytes = getSize(this.pending);
    return until;
  }

  /** Resolves when readings are pending, when the reader is behind, after the timeout, or when the signal aborts. */
  async wait(timeoutMs: number): Promise<void> {
    if (this.pending.length > 0 || this.isBehind || this.signal.aborted) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      timer.unref();
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.wake = undefined;
  }

  /** Stops listening. */
  close(): void {
    this.removeListeners();
  }

  /**
   * Returns the watermark. Opens and closes a position first, so that the watermark is the position of the current time
   * if no readings are being stored.
   */
  private advanceWatermark(): number {
    this.positions.close(this.organizationId, this.positions.open(this.organizationId));
    return this.positions.getWatermark(this.organizationId);
  }

  /** Buffers readings, or skips them if the buffer is full or the reader is behind. */
  private add(readings: readonly StoredReading[]): void {
    if (readings.length === 0) return;
    const bytes = this.isBehind ? 0 : getSize(readings);
    if (this.isBehind || this.pendingBytes + bytes > MAX_PENDING_BYTES) {
      this.markSkipped(...readings.map(({ position }) => position));
      return;
    }
    this.pending.push(...readings);
    this.pendingBytes += bytes;
    this.wake?.();
  }

  /** Records that the reader has to read these positions from the database. */
  private markSkipped(...positions: readonly number[]): void {
    this.lastSkipped = Math.max(this.lastSkipped, ...positions);
    this.wake?.();
  }
}

function getSize(readings: readonly StoredReading[]): number {
  return readings.reduce((sum, reading) => sum + estimateReadingSize(reading), 0);
}
