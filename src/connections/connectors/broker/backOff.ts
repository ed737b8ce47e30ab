/** The delays between connection attempts, in milliseconds. */
interface BackOffSettings {
  /** The delay after the first failure; default 1 s. */
  readonly firstMs: number;
  /** The maximum of the doubled delay during the first five minutes; default 5 s. */
  readonly maxMs: number;
  /** The maximum of the doubled delay later; default 30 s. */
  readonly lateMaxMs: number;
  /** When the outage counts as long; default five minutes. */
  readonly lateAfterMs: number;
  /** The delay after a fault that a person must fix; default 60 s. */
  readonly fatalMs: number;
  /** The minimum time between the starts of two attempts while a command waits; default 1 s. */
  readonly waitingMs: number;
  /** A session that lasted at least this long resets the number of failures; default 10 s. */
  readonly resetAfterMs: number;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). It spreads the clients that reconnect to the same broker. */
  readonly random: () => number;
}

/** Settings that override the defaults. */
export type BrokerBackoff = Partial<BackOffSettings>;

/** A connection attempt that has ended. Times are on the monotonic clock, in milliseconds. */
interface EndedAttempt {
  readonly startedAt: number;
  readonly endedAt: number;
  /** Whether the broker accepted the connection, so that the time was mainly that of a session. */
  readonly wasAccepted: boolean;
  /** Whether a person must change something. */
  readonly isFatal: boolean;
}

const DEFAULT_BACK_OFF: BackOffSettings = {
  firstMs: 1000,
  maxMs: 5000,
  lateMaxMs: 30_000,
  lateAfterMs: 5 * 60_000,
  fatalMs: 60_000,
  waitingMs: 1000,
  resetAfterMs: 10_000,
  random: Math.random,
};

/**
 * Doubles the delay with each failure. A random jitter selects a delay between half of it and all of it. The duration
 * of a failed attempt is part of the delay, so that an attempt that waits for a silent host does not prolong it.
 */
export class BackOff {
  private readonly settings: BackOffSettings;
  private failureCount = 0;
  /** When the first of the failures happened, on the monotonic clock. */
  private failingSince = 0;

  constructor(settings: BrokerBackoff = {}) {
    this.settings = { ...DEFAULT_BACK_OFF, ...settings };
  }

  /** Returns the delay until the next attempt in milliseconds. */
  next({ startedAt, endedAt, wasAccepted, isFatal }: EndedAttempt): number {
    const { firstMs, maxMs, lateMaxMs, lateAfterMs, fatalMs, resetAfterMs, random } = this.settings;
    const durationMs = endedAt - startedAt;
    if (wasAccepted && durationMs >= resetAfterMs) this.failureCount = 0;
    if (this.failureCount === 0) this.failingSince = endedAt;
    const limitMs = endedAt - this.failingSince >= lateAfterMs ? lateMaxMs : maxMs;
    // The exponent is limited so that the power remains a finite number; the limit is reached much earlier.
    const maxDelayMs = isFatal ? fatalMs : Math.min(limitMs, firstMs * 2 ** Math.min(this.failureCount, 30));
    this.failureCount += 1;
    const delayMs = maxDelayMs / 2 + (maxDelayMs / 2) * random();
    return wasAccepted || isFatal ? delayMs : Math.max(firstMs / 2, delayMs - durationMs);
  }

  /** Returns the delay until the next attempt while a command waits, in milliseconds; 0: at once. */
  nextWhileWaiting({ startedAt, endedAt }: Pick<EndedAttempt, 'startedAt' | 'endedAt'>): number {
    return Math.max(0, this.settings.waitingMs - (endedAt - startedAt));
  }
}
