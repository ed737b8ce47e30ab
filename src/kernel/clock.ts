/** Source of time, injected so that tests can set it. All times in the domain are Unix milliseconds. */
export interface Clock {
  /** Wall-clock time in Unix milliseconds. */
  now(): number;
  /** Monotonic time in milliseconds; only differences are meaningful. */
  monotonic(): number;
}

/** The system clocks. */
export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() };

/** The speed of a steady clock that lets the system clock catch up: an hour is corrected within two hours. */
const SPEED_WHILE_AHEAD = 0.5;

/** Options of createSteadyClock. */
interface SteadyClockOptions {
  /** The earliest start, Unix milliseconds. */
  readonly notBefore?: number | undefined;
  /** Whether the clock may run slower than the monotonic clock now. Default: never. */
  readonly mayRunSlower?: () => boolean;
}

/**
 * Creates a clock whose `now` never runs backwards: it is the later one of the system time and the last returned time
 * plus the elapsed time. If the system clock is set back, this clock runs at half speed while `mayRunSlower` allows it,
 * until the system time has caught up. Otherwise it keeps the speed of the monotonic clock, so that deadlines are not
 * extended while the process runs.
 */
export function createSteadyClock(clock: Clock, options: SteadyClockOptions = {}): Clock {
  const { notBefore = -Infinity, mayRunSlower = (): boolean => false } = options;
  let lastTime = Math.max(clock.now(), notBefore);
  let lastMonotonic = clock.monotonic();
  const now = (): number => {
    const monotonic = clock.monotonic();
    const elapsedMs = monotonic - lastMonotonic;
    const systemTime = clock.now();
    const isAhead = lastTime + elapsedMs > systemTime;
    lastTime = Math.max(systemTime, lastTime + (isAhead && mayRunSlower() ? elapsedMs * SPEED_WHILE_AHEAD : elapsedMs));
    lastMonotonic = monotonic;
    return Math.floor(lastTime);
  };
  return { now, monotonic: () => clock.monotonic() };
}
