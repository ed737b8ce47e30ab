import type { Clock } from '../kernel/clock';

/** The smallest difference, in milliseconds, that a double can represent in Unix milliseconds of the next centuries. */
const STEP_MS = 2 ** -10;

/**
 * Creates arrival times that define an order even within a millisecond. Use one instance for everything that is
 * compared.
 */
export class MonotonicTimestamps {
  private last = 0;

  constructor(private readonly clock: Clock) {}

  /**
   * Returns the current time: Unix milliseconds, with a fraction that only defines an order. The result is always
   * greater than the previous one.
   */
  nextArrivalTime(): number {
    this.last = Math.max(this.clock.now(), this.last + STEP_MS);
    return this.last;
  }
}
