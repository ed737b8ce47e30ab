import { monitorEventLoopDelay } from 'node:perf_hooks';

const RESOLUTION_MS = 10;
const WINDOW_MS = 15_000;
const PERCENTILES = [50, 99, 100];

/** How late the event loop comes, of the last 15 to 30 seconds: whoever asks more often sees the same as one who does not. */
export class LoopDelay {
  private readonly measured = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  private timer: NodeJS.Timeout | undefined;
  private before: readonly number[] = PERCENTILES.map(() => 0);

  start(): void {
    this.measured.enable();
    this.timer = setInterval(() => {
      this.before = this.now();
      this.measured.reset();
    }, WINDOW_MS).unref();
  }

  stop(): void {
    clearInterval(this.timer);
    this.measured.disable();
  }

  /** The greater of this window and the one before, in seconds, for each percentile. */
  percentiles(): { readonly percentile: number; readonly seconds: number }[] {
    const now = this.now();
    return PERCENTILES.map((percentile, at) => ({ percentile, seconds: Math.max(now[at] ?? 0, this.before[at] ?? 0) }));
  }

  /** The resolution is what a loop without any delay shows. */
  private now(): readonly number[] {
    if (this.measured.count === 0) return PERCENTILES.map(() => 0);
    return PERCENTILES.map((percentile) => Math.max(0, this.measured.percentile(percentile) / 1e9 - RESOLUTION_MS / 1000));
  }
}
