import { createSteadyClock } from '../../src/kernel/clock';

describe('the steady clock', () => {
  const machine = { wall: 1_000_000, monotonic: 50 };
  const clock = createSteadyClock({ now: () => machine.wall, monotonic: () => machine.monotonic });
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
});
