/**
 * Replaces `Date` so that the time of day of this process can be moved, as a person or NTP moves the clock of a machine.
 * Monotonic clocks do not change. Returns a function that sets by how many milliseconds the clock is ahead.
 */
export function installClock(aheadMs: number): (ms: number) => void {
  let ahead = aheadMs;
  const RealDate = Date;
  const now = (): number => RealDate.now() + ahead;
  const construct = (target: DateConstructor, given: unknown[], newTarget: Function): object =>
    Reflect.construct(target, given.length === 0 ? [now()] : given, newTarget) as object;
  globalThis.Date = new Proxy(RealDate, {
    construct,
    apply: () => new RealDate(now()).toString(),
    get: (target, name, receiver) => (name === 'now' ? now : (Reflect.get(target, name, receiver) as unknown)),
  });
  return (ms) => {
    ahead = ms;
  };
}
