import type { Clock } from '../../src/kernel/clock';

/** A clock that stands still until a test moves it. */
export class TestClock implements Clock {
  private reads = 0;

  constructor(private time = Date.UTC(2026, 0, 2, 3, 4, 5, 678)) {}

  now(): number {
    return this.time;
  }

  /** With fractions of a millisecond that grow, as the machine's has. */
  monotonic(): number {
    this.reads += 1;
    return this.time + this.reads / 8192;
  }

  /** Moves it on by so many milliseconds. */
  advance(milliseconds: number): void {
    this.time += milliseconds;
  }
}
