import type { Clock } from '../../kernel/clock';

// Node.js timers do not notice clock jumps, so the clock is checked at this interval while a deadline is pending.
const CHECK_INTERVAL_MS = 250;

/** Calls `onDue` once when the clock shows the earliest time that was set. */
export class DeadlineTimer {
  private dueAt = Infinity;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly onDue: () => void,
  ) {}

  /** Sets the time of the call, Unix milliseconds, unless an earlier one is set. */
  set(dueAt: number): void {
    if (dueAt >= this.dueAt) return;
    this.dueAt = dueAt;
    this.wait();
  }

  /** Clears the time. */
  clear(): void {
    this.dueAt = Infinity;
    clearTimeout(this.timer);
  }

  /** Waits until the time, but at most CHECK_INTERVAL_MS. */
  private wait(): void {
    clearTimeout(this.timer);
    const waitMs = Math.max(0, Math.min(this.dueAt - this.clock.now(), CHECK_INTERVAL_MS));
    this.timer = setTimeout(() => this.check(), waitMs);
    this.timer.unref();
  }

  /** Calls back if the time has come, otherwise waits further. */
  private check(): void {
    if (this.clock.now() < this.dueAt) {
      this.wait();
      return;
    }
    this.dueAt = Infinity;
    this.onDue();
  }
}
