import { monitorEventLoopDelay } from 'node:perf_hooks';

const NANOSECONDS_PER_SECOND = 1e9;
/** The sampling interval. */
const RESOLUTION_MS = 10;
const WINDOW_MS = 15_000;
const PERCENTILES = [50, 99, 100];

/** The event loop delay of the last 15 to 30 seconds, independent of the scrape interval. */
export class EventLoopLag {
  private readonly delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  private timer: NodeJS.Timeout | undefined;
  /** The result of readPercentiles at the end of the previous window. */
  private previousWindow: readonly number[] = PERCENTILES.map(() => 0);

  /** Starts measuring, in windows of WINDOW_MS. */
  start(): void {
    this.delays.enable();
    this.timer = setInterval(() => {
      this.previousWindow = this.readPercentiles();
      this.delays.reset();
    }, WINDOW_MS).unref();
  }

  stop(): void {
    clearInterval(this.timer);
    this.delays.disable();
  }

  /** The maximum of this window and the previous one, in seconds, for each percentile. */
  getPercentiles(): { readonly percentile: number; readonly seconds: number }[] {
    const currentWindow = this.readPercentiles();
    return PERCENTILES.map((percentile, index) => ({
      percentile,
      seconds: Math.max(currentWindow[index] ?? 0, this.previousWindow[index] ?? 0),
    }));
  }

  /**
   * Returns the delays of the current window in seconds, one for each of PERCENTILES. The sampling interval is
   * subtracted, because an event loop without any delay also shows that value.
   */
  private readPercentiles(): readonly number[] {
    if (this.delays.count === 0) return PERCENTILES.map(() => 0);
    return PERCENTILES.map((percentile) =>
      Math.max(0, this.delays.percentile(percentile) / NANOSECONDS_PER_SECOND - RESOLUTION_MS / 1000),
    );
  }
}
