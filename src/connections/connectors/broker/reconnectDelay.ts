import type { Clock } from '../../../kernel/clock';
import { sleep } from '../../../kernel/sleep';
import { BackOff, type BrokerBackoff } from './backOff';

/** Waits between the connection attempts of one connection. A waiting command ends the delay. */
export class ReconnectDelay {
  private readonly backOff: BackOff;
  /** When the last attempt started, on the monotonic clock. */
  private startedAt: number;
  /** Whether a command has waited since the last attempt started. */
  private isCommandWaiting = false;
  /** Ends the current delay. */
  private endDelay: () => void = () => {};

  constructor(
    private readonly clock: Clock,
    backoff: BrokerBackoff | undefined,
  ) {
    this.backOff = new BackOff(backoff);
    this.startedAt = clock.monotonic();
  }

  /** Reports that an attempt starts now. */
  attemptStarted(): void {
    this.startedAt = this.clock.monotonic();
    this.isCommandWaiting = false;
  }

  /** Returns the delay after the attempt that ends now, in milliseconds. `wasAccepted`, `isFatal`: see BackOff. */
  next(wasAccepted: boolean, isFatal: boolean): number {
    return this.backOff.next({ startedAt: this.startedAt, endedAt: this.clock.monotonic(), wasAccepted, isFatal });
  }

  /** Reports that a command waits, which ends the delay as soon as the minimum time between two attempts has passed. */
  endForCommand(): void {
    this.isCommandWaiting = true;
    this.endDelay();
  }

  /**
   * Waits for `delayMs`, until a command waits unless `isFatal`, or until the signal aborts. After a fatal fault
   * another attempt is useless before a person has changed something, and could lock the account of the connection.
   */
  async wait(delayMs: number, isFatal: boolean, signal: AbortSignal): Promise<void> {
    if (isFatal) {
      await sleep(delayMs, signal);
      return;
    }
    const ended = new AbortController();
    this.endDelay = () => ended.abort();
    if (this.isCommandWaiting) ended.abort();
    await sleep(delayMs, AbortSignal.any([signal, ended.signal]));
    this.endDelay = () => {};
    if (!ended.signal.aborted) return;
    const { startedAt } = this;
    const remainingMs = this.backOff.nextWhileWaiting({ startedAt, endedAt: this.clock.monotonic() });
    await sleep(Math.min(remainingMs, delayMs), signal);
  }
}
