/** How long to wait between attempts, in milliseconds. */
export interface BackOffSettings {
  /** After the first failure: 1 s. */
  readonly firstMs: number;
  /** Doubled up to: 60 s. */
  readonly mostMs: number;
  /** After a fault that somebody must mend: 60 s. */
  readonly fatalMs: number;
  /** A session that lasted so long begins anew: 10 s. */
  readonly calmMs: number;
  /** From 0 to below 1; spreads those who wait for the same broker. */
  readonly random: () => number;
}

/** Absent ones are as usual. */
export type BrokerBackoff = Partial<BackOffSettings>;

const USUAL: BackOffSettings = { firstMs: 1000, mostMs: 60_000, fatalMs: 60_000, calmMs: 10_000, random: Math.random };

/** Doubles the wait with each failure, with jitter: between half of it and all of it. */
export class BackOff {
  private readonly settings: BackOffSettings;
  private failures = 0;

  constructor(settings: BrokerBackoff = {}) {
    this.settings = { ...USUAL, ...settings };
  }

  /** How long to wait after an attempt that lived `livedMs`. */
  next(isFatal: boolean, livedMs: number): number {
    const { firstMs, mostMs, fatalMs, calmMs, random } = this.settings;
    if (livedMs >= calmMs) this.failures = 0;
    const whole = isFatal ? fatalMs : Math.min(mostMs, firstMs * 2 ** Math.min(this.failures, 30));
    this.failures += 1;
    return whole / 2 + (whole / 2) * random();
  }
}
