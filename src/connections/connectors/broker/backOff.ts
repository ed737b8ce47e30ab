/** The delays between connection attempts, in milliseconds. */
interface BackOffSettings {
  /** The delay after the first failure; default 1 s. */
  readonly firstMs: number;
  /** The maximum of the doubled delay; default 5 s, because commands may be waiting. */
  readonly maxMs: number;
  /** The delay after a fault that a person must fix; default 60 s. */
  readonly fatalMs: number;
  /** A session that lasted at least this long resets the number of failures; default 10 s. */
  readonly resetAfterMs: number;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). It spreads the clients that reconnect to the same broker. */
  readonly random: () => number;
}

/** Settings that override the defaults. */
export type BrokerBackoff = Partial<BackOffSettings>;

const DEFAULT_BACK_OFF: BackOffSettings = {
  firstMs: 1000,
  maxMs: 5000,
  fatalMs: 60_000,
  resetAfterMs: 10_000,
  random: Math.random,
};

/** Doubles the delay with each failure. A random jitter selects a delay between half of it and all of it. */
export class BackOff {
  private readonly settings: BackOffSettings;
  private failureCount = 0;

  constructor(settings: BrokerBackoff = {}) {
    this.settings = { ...DEFAULT_BACK_OFF, ...settings };
  }

  /** Returns the delay in milliseconds after an attempt that lasted `durationMs`. */
  next(isFatal: boolean, durationMs: number): number {
    const { firstMs, maxMs, fatalMs, resetAfterMs, random } = this.settings;
    if (durationMs >= resetAfterMs) this.failureCount = 0;
    // The exponent is limited so that the power remains a finite number; `maxMs` is reached much earlier.
    const maxDelayMs = isFatal ? fatalMs : Math.min(maxMs, firstMs * 2 ** Math.min(this.failureCount, 30));
    this.failureCount += 1;
    return maxDelayMs / 2 + (maxDelayMs / 2) * random();
  }
}
