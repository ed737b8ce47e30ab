/** Source of time, injected so that tests can set it. All times in the domain are Unix milliseconds. */
export interface Clock {
  /** Wall-clock time in Unix milliseconds. */
  now(): number;
  /** Monotonic time in milliseconds; only differences are meaningful. */
  monotonic(): number;
}

/** The system clocks. */
export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() };

/**
 * Creates a clock whose `now` never runs backwards and never slower than the monotonic clock: it is the later one of
 * the system time and the last returned time plus the elapsed time. If the system clock is set back, deadlines are not
 * extended while the process runs. `notBefore`: the earliest start, Unix milliseconds.
 */
export function createSteadyClock(clock: Clock, notBefore = -Infinity): Clock {
  let lastTime = Math.max(clock.now(), notBefore);
  let lastMonotonic = clock.monotonic();
  const now = (): number => {
    const monotonic = clock.monotonic();
    const elapsedMs = monotonic - lastMonotonic;
    lastTime = Math.max(clock.now(), lastTime + elapsedMs);
    lastMonotonic = monotonic;
    return Math.floor(lastTime);
  };
  return { now, monotonic: () => clock.monotonic() };
}
