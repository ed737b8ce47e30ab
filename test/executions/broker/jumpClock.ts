import { createSteadyClock } from '../../../src/kernel/clock';
import { TestClock } from '../../support/testClock';

/** A server clock on a machine whose system clock can be moved forward or back. */
export class JumpClock extends TestClock {
  private offset = 0;
  private readonly steady = createSteadyClock({ now: () => super.now() + this.offset, monotonic: () => super.now() });

  override now(): number {
    return this.steady.now();
  }

  /** Sets the system clock without letting time pass; milliseconds. */
  jump(milliseconds: number): void {
    this.offset += milliseconds;
  }
}
