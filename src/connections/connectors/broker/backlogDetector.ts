import type { Clock } from '../../../kernel/clock';
import type { MessageBarrier } from './messageBarrier';

/**
 * Brokers send at least this many messages before they wait for acknowledgements. With fewer unacknowledged messages,
 * the broker holds none back.
 */
const BUSY_MESSAGES = 8;
/** A connection that was not busy for this time has no backlog. */
const MIN_IDLE_MS = 2000;
const MAX_WAIT_MS = 2000;
/**
 * The time without load that replaces a barrier message if the broker does not return such messages, and how often the
 * load is checked.
 */
const MIN_IDLE_WITHOUT_BARRIER_MS = 1000;
const POLL_INTERVAL_MS = 50;

/**
 * Detects whether one connection has a backlog: messages that wait at the broker until earlier ones are acknowledged.
 * The connection is busy while so many messages are unacknowledged that the broker may hold others back, and idle
 * otherwise. A barrier message is one that this server sends to itself through the broker: when it returns, all
 * messages that were at the broker before it have arrived (MessageBarrier).
 */
export class BacklogDetector {
  private unacknowledgedCount = 0;
  /** When the connection was last busy, on the monotonic clock. */
  private lastBusyAt = Number.NEGATIVE_INFINITY;
  /** Resolves when the barrier message in transit has returned or is lost. */
  private barrierInTransit: Promise<void> = Promise.resolve();
  /**
   * The barrier message that is sent after the one in transit. All callers that arrive in the meantime share it: the
   * one in transit was sent before their call, so it proves nothing about messages that arrived at the broker since
   * then.
   */
  private nextBarrier: Promise<void> | undefined;
  /** Whether the last barrier message has not returned (yet), so the broker may drop such messages. */
  private isBarrierLost = false;
  /** Callbacks that end the current waits. */
  private readonly waitEnders = new Set<() => void>();

  /** `signal` aborts when the connection is closed. */
  constructor(
    private readonly barrier: MessageBarrier,
    private readonly clock: Clock,
    private readonly signal: AbortSignal,
  ) {
    signal.addEventListener('abort', () => this.waitEnders.forEach((endWait) => endWait()), { once: true });
  }

  /** Reports that a message arrived that must be acknowledged. */
  trackMessage(): void {
    this.unacknowledgedCount += 1;
    if (this.unacknowledgedCount >= BUSY_MESSAGES) this.lastBusyAt = this.clock.monotonic();
  }

  /** Reports that a message was acknowledged, or will never be. */
  releaseMessage(): void {
    if (this.unacknowledgedCount >= BUSY_MESSAGES) this.lastBusyAt = this.clock.monotonic(); // it was busy until now
    this.unacknowledgedCount -= 1;
  }

  /** The time since messages may last have waited at the broker, milliseconds. */
  get idleMs(): number {
    return this.unacknowledgedCount >= BUSY_MESSAGES ? 0 : this.clock.monotonic() - this.lastBusyAt;
  }

  /**
   * Resolves when the messages that were at the broker before the call have arrived, after 2 s, or when the connection
   * is closed, whichever is first. Never rejects.
   */
  async waitForBacklog(): Promise<void> {
    if (this.idleMs >= MIN_IDLE_MS) return; // there is no backlog
    await this.waitAtMost(MAX_WAIT_MS, this.waitForBarrier());
  }

  /**
   * Waits for a barrier message that is sent after the call; if the broker drops such messages, until the connection is
   * idle.
   */
  private async waitForBarrier(): Promise<void> {
    if (!this.isBarrierLost) {
      this.nextBarrier ??= this.barrierInTransit.then(async () => await this.sendNextBarrier());
      await this.nextBarrier;
    }
    if (this.isBarrierLost) await this.waitUntilIdle();
  }

  /** Sends the next barrier message, which becomes the one in transit, and waits at most 2 s until it returns. */
  private async sendNextBarrier(): Promise<void> {
    this.barrierInTransit = this.nextBarrier ?? this.barrierInTransit;
    this.nextBarrier = undefined;
    this.isBarrierLost = true; // until it returns
    await this.waitAtMost(MAX_WAIT_MS, this.sendBarrier());
  }

  private async sendBarrier(): Promise<void> {
    if (await this.barrier.send()) this.isBarrierLost = false; // it returned, possibly late
  }

  /** Resolves when the connection was not busy for a second, or after 2 s. */
  private async waitUntilIdle(): Promise<void> {
    const waitUntil = performance.now() + MAX_WAIT_MS;
    while (this.idleMs < MIN_IDLE_WITHOUT_BARRIER_MS && performance.now() < waitUntil && !this.signal.aborted)
      await this.waitAtMost(POLL_INTERVAL_MS, new Promise(() => {})); // sleeps, but ends with the connection
  }

  /**
   * Resolves when the promise resolves, after `limitMs`, or when the connection is closed. The promise never rejects.
   */
  private async waitAtMost(limitMs: number, promise: Promise<unknown>): Promise<void> {
    if (this.signal.aborted) return;
    await new Promise<void>((resolve) => {
      const endWait = (): void => {
        clearTimeout(timer);
        this.waitEnders.delete(endWait);
        resolve();
      };
      const timer = setTimeout(endWait, limitMs);
      this.waitEnders.add(endWait);
      void promise.then(endWait);
    });
  }
}
