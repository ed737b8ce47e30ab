/** Time comes from outside, so that a test can set it. All times in the domain are Unix milliseconds. */
export interface Clock {
  /** Wall-clock time in Unix milliseconds. */
  now(): number;
  /** Milliseconds on a clock that never jumps; only differences mean something. */
  monotonic(): number;
}

/** The machine's clocks. */
export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() };
