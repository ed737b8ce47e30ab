import { steadyClock } from '../../../src/kernel/clock';
import { TestClock } from '../../support/testClock';

/** The server's clock on a machine whose wall clock somebody puts forward or back. */
export class JumpClock extends TestClock {
  private offset = 0;
  private readonly steady = steadyClock({ now: () => super.now() + this.offset, monotonic: () => super.now() });

  override now(): number {
    return this.steady.now();
  }

  /** Somebody sets the machine's clock; no time passes. Milliseconds. */
  jump(milliseconds: number): void {
    this.offset += milliseconds;
  }
}
