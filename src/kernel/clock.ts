/** Time comes from outside, so that a test can set it. All times in the domain are Unix milliseconds. */
export interface Clock {
  /** Wall-clock time in Unix milliseconds. */
  now(): number;
  /** Milliseconds on a clock that never jumps; only differences mean something. */
  monotonic(): number;
}

/** The machine's clocks. */
export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() };

/**
 * The same clocks, but `now` never runs backwards and never slower than the monotonic one: when the machine's clock is put back,
 * deadlines are not extended as long as the process lives. `notBefore`: it begins there at the earliest, Unix milliseconds.
 */
export function steadyClock(clock: Clock, notBefore = -Infinity): Clock {
  let wall = Math.max(clock.now(), notBefore);
  let monotonic = clock.monotonic();
  const now = (): number => {
    const at = clock.monotonic();
    wall = Math.max(clock.now(), wall + (at - monotonic));
    monotonic = at;
    return Math.floor(wall);
  };
  return { now, monotonic: () => clock.monotonic() };
}
