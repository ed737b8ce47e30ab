/** Puts the time of day of this process forward or back, for everything that asks for it: what a person or NTP does to the clock of a machine. The monotonic clocks stay. */
export function installClock(aheadMs: number): (ms: number) => void {
  let ahead = aheadMs;
  const RealDate = Date;
  const now = (): number => RealDate.now() + ahead;
  const construct = (target: DateConstructor, given: unknown[], newTarget: Function): object => Reflect.construct(target, given.length === 0 ? [now()] : given, newTarget) as object;
  globalThis.Date = new Proxy(RealDate, { construct, apply: () => new RealDate(now()).toString(), get: (target, name, receiver) => (name === 'now' ? now : (Reflect.get(target, name, receiver) as unknown)) });
  return (ms) => {
    ahead = ms;
  };
}
