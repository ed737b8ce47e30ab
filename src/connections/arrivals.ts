import type { Clock } from '../kernel/clock';

/** As fine as a double can tell Unix milliseconds apart for the next centuries. */
const STEP = 2 ** -10;

/** Stamps what arrives, so that its order is told even within a millisecond. One for all that is compared with each other. */
export class Arrivals {
  private last = 0;

  constructor(private readonly clock: Clock) {}

  /** When something arrived: Unix milliseconds, with a fraction that only orders. Always more than the stamp before. */
  stamp(): number {
    this.last = Math.max(this.clock.now(), this.last + STEP);
    return this.last;
  }
}
