import type { ReadingPositions } from '../readings/readingPositions';
import type { StoredReading } from '../readings/storedReading';
import { sizeOfReading } from './readingSize';

// What a reader may leave lying before it has to catch up from the database, in bytes as it is sent: numbers of two seconds and more at 15,000 a second.
const MOST_WAITING = 4 * 1024 * 1024;

/** The readings of an organization as they are stored, for one reader. What is too much for it is only counted: it is in the database. */
export class LiveReadings {
  private waiting: StoredReading[] = [];
  private bytes = 0;
  /** The greatest position that was left out since the last catching up; 0: none. */
  private left = 0;
  private wake: (() => void) | undefined;
  private readonly stop: () => void;

  /** `matters` says of a sensor whether the reader may want it. Listens from now on until `close`; whoever waits goes on when the signal aborts. */
  constructor(
    private readonly positions: ReadingPositions,
    private readonly organizationId: string,
    matters: (sensorId: string) => boolean,
    private readonly signal: AbortSignal,
  ) {
    const tell = (): void => this.wake?.();
    signal.addEventListener('abort', tell);
    const stopListening = positions.onStored((from, readings) => {
      if (from === organizationId) this.add(readings.filter(({ sensorId }) => matters(sensorId)));
    });
    const stopMissing = positions.onMissed((from, position) => {
      if (from === organizationId) this.leaveOut(position);
    });
    this.stop = () => {
      signal.removeEventListener('abort', tell);
      stopListening();
      stopMissing();
    };
  }

  /** Whether readings were left out, so that the reader has to catch up. */
  get isBehind(): boolean {
    return this.left > 0;
  }

  /** Takes what waits. Everything up to `until` that was stored since the last taking is in it, unless the reader is behind. */
  take(): { readonly readings: StoredReading[]; readonly until: number } {
    const readings = this.waiting;
    [this.waiting, this.bytes] = [[], 0];
    return { readings, until: this.settledUntil() };
  }

  /** Begins anew: resolves to a position up to which all is on disk. The reader finds it there; all that is stored after it is taken from now on. */
  async restart(): Promise<number> {
    // What was told before this began to listen, or was left out, may come after something that is still being stored.
    await this.positions.settledOf(this.organizationId);
    const until = this.settledUntil();
    if (this.left <= until) this.left = 0;
    this.waiting = this.waiting.filter(({ position }) => position > until);
    this.bytes = sizeOf(this.waiting);
    return until;
  }

  /** Resolves when something waits, after so many milliseconds, or when the signal aborts. */
  async news(milliseconds: number): Promise<void> {
    if (this.waiting.length > 0 || this.isBehind || this.signal.aborted) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      timer.unref();
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.wake = undefined;
  }

  /** Listens no more. */
  close(): void {
    this.stop();
  }

  /** Up to where all is on disk: up to now, if nothing is being stored. */
  private settledUntil(): number {
    this.positions.close(this.organizationId, this.positions.open(this.organizationId));
    return this.positions.watermarkOf(this.organizationId);
  }

  private add(readings: readonly StoredReading[]): void {
    if (readings.length === 0) return;
    const bytes = this.isBehind ? 0 : sizeOf(readings);
    if (this.isBehind || this.bytes + bytes > MOST_WAITING) return this.leaveOut(...readings.map(({ position }) => position));
    this.waiting.push(...readings);
    this.bytes += bytes;
    this.wake?.();
  }

  private leaveOut(...positions: readonly number[]): void {
    this.left = Math.max(this.left, ...positions);
    this.wake?.();
  }
}

function sizeOf(readings: readonly StoredReading[]): number {
  return readings.reduce((sum, reading) => sum + sizeOfReading(reading), 0);
}
