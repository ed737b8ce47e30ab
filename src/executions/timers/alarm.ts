import type { Clock } from '../../kernel/clock';

// Clocks jump, and timers of Node do not see it: the clock is looked at that often while something is awaited.
const LOOK_EVERY_MS = 250;

/** Calls back once when the clock has reached the earliest of the times that were set. */
export class Alarm {
  private at = Infinity;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly action: () => void,
  ) {}

  /** Unix milliseconds; a later time than the one that is set changes nothing. */
  set(at: number): void {
    if (at >= this.at) return;
    this.at = at;
    this.wait();
  }

  /** Forgets what was set. */
  clear(): void {
    this.at = Infinity;
    clearTimeout(this.timer);
  }

  private wait(): void {
    clearTimeout(this.timer);
    const rest = Math.max(0, Math.min(this.at - this.clock.now(), LOOK_EVERY_MS));
    this.timer = setTimeout(() => this.look(), rest);
    this.timer.unref();
  }

  private look(): void {
    if (this.clock.now() < this.at) {
      this.wait();
      return;
    }
    this.at = Infinity;
    this.action();
  }
}
