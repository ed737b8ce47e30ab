import { createSteadyClock } from '../../src/kernel/clock';

describe('the steady clock', () => {
  const machine = { wall: 1_000_000, monotonic: 50 };
  let mayRunSlower = false;
  const clock = createSteadyClock(
    { now: () => machine.wall, monotonic: () => machine.monotonic },
    { mayRunSlower: () => mayRunSlower },
  );
  function pass(wall: number, monotonic: number): number {
    machine.wall += wall;
    machine.monotonic += monotonic;
    return clock.now();
  }

  it('follows the wall clock, also when that is set forward, and never runs backwards', () => {
    expect(pass(10, 10)).toBe(1_000_010);
    expect(pass(3_600_000, 10)).toBe(4_600_010);
    expect(pass(-3_600_000, 10)).toBe(4_600_020); // the monotonic clock is used
    expect(pass(0, 500)).toBe(4_600_520);
    expect(pass(-7_200_000, 0)).toBe(4_600_520);
    expect(pass(20_000_000, 1)).toBe(machine.wall);
    expect(clock.monotonic()).toBe(machine.monotonic);
  });

  it('lets a wall clock that was set back catch up while it may run slower', () => {
    mayRunSlower = true;
    const start = pass(0, 0);
    expect(pass(-1000, 0)).toBe(start);
    expect(pass(1000, 1000)).toBe(start + 500);
    mayRunSlower = false;
    expect(pass(100, 100)).toBe(start + 600);
    mayRunSlower = true;
    expect(pass(1000, 1000)).toBe(machine.wall);
    expect(pass(1000, 1000)).toBe(machine.wall);
  });
});
