import { MonotonicTimestamps } from '../../src/connections/monotonicTimestamps';
import { TestClock } from '../support/testClock';

describe('arrival timestamps', () => {
  it('increase within a millisecond and follow the clock', () => {
    const clock = new TestClock();
    const arrivals = new MonotonicTimestamps(clock);
    const stamps = Array.from({ length: 1000 }, () => arrivals.nextArrivalTime());
    expect(stamps[0]).toBe(clock.now());
    for (const [at, stamp] of stamps.slice(1).entries()) expect(stamp).toBeGreaterThan(stamps[at] ?? 0);
    expect(Math.floor(stamps.at(-1) ?? 0)).toBe(clock.now());
    clock.advance(1);
    expect(arrivals.nextArrivalTime()).toBe(clock.now());
  });
});
