import type { Clock } from '../../src/kernel/clock';

/** A clock that only moves when a test moves it. */
export class TestClock implements Clock {
  private reads = 0;

  constructor(private time = Date.UTC(2026, 0, 2, 3, 4, 5, 678)) {}

  now(): number {
    return this.time;
  }

  /** Returns milliseconds with an increasing fraction, like the clock of the machine. */
  monotonic(): number {
    this.reads += 1;
    return this.time + this.reads / 8192;
  }

  /** Moves the clock forward by this number of milliseconds. */
  advance(milliseconds: number): void {
    this.time += milliseconds;
  }
}
