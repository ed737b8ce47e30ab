import type { Clock } from '../../../kernel/clock';
import type { Fence } from './fence';

/** Brokers send so many messages and more before they wait for acknowledgements; below it, nothing waits for us there. */
const BUSY = 8;
/** What has not been busy for so long has no backlog. */
const CALM_MS = 2000;
const LONGEST_WAIT = 2000;
/** How calm it must be where no fence helps, and how often that is looked at. */
const CALM_WITHOUT_FENCE_MS = 1000;
const LOOK_MS = 50;

/** Whether messages may be waiting at the broker for our acknowledgements of those before; of one connection. */
export class Backlog {
  private open = 0;
  private busyAt = Number.NEGATIVE_INFINITY;
  /** The fence on its way, and the one after it, which serves everybody who asks meanwhile. */
  private running: Promise<void> = Promise.resolve();
  private next: Promise<void> | undefined;
  private isFenceLost = false;
  /** Ends every wait there is. */
  private readonly ends = new Set<() => void>();

  /** `signal` aborts when the connection is over. */
  constructor(
    private readonly fence: Fence,
    private readonly clock: Clock,
    private readonly signal: AbortSignal,
  ) {
    signal.addEventListener('abort', () => this.ends.forEach((end) => end()), { once: true });
  }

  /** A message came that must be acknowledged. */
  enter(): void {
    this.open += 1;
    if (this.open >= BUSY) this.busyAt = this.clock.monotonic();
  }

  /** It is acknowledged, or will not be. */
  leave(): void {
    if (this.open >= BUSY) this.busyAt = this.clock.monotonic();
    this.open -= 1;
  }

  /** For how long nothing can have waited at the broker, milliseconds. */
  get calmMs(): number {
    return this.open >= BUSY ? 0 : this.clock.monotonic() - this.busyAt;
  }

  /** Resolves when what was at the broker before the call has come; at most 2 s later, and when the connection is over. Never rejects. */
  async caughtUp(): Promise<void> {
    if (this.calmMs >= CALM_MS) return;
    await this.within(LONGEST_WAIT, this.catchUp());
  }

  private async catchUp(): Promise<void> {
    if (!this.isFenceLost) {
      this.next ??= this.running.then(async () => await this.raise());
      await this.next;
    }
    if (this.isFenceLost) await this.calm();
  }

  private async raise(): Promise<void> {
    this.running = this.next ?? this.running;
    this.next = undefined;
    this.isFenceLost = true;
    await this.within(LONGEST_WAIT, this.pass());
  }

  private async pass(): Promise<void> {
    if (await this.fence.raise()) this.isFenceLost = false; // perhaps late, but it comes
  }

  private async calm(): Promise<void> {
    const until = performance.now() + LONGEST_WAIT;
    while (this.calmMs < CALM_WITHOUT_FENCE_MS && performance.now() < until && !this.signal.aborted) await this.within(LOOK_MS, new Promise(() => {}));
  }

  /** Resolves with the promise, which never rejects; at the limit, and when the connection is over. */
  private async within(limitMs: number, promise: Promise<unknown>): Promise<void> {
    if (this.signal.aborted) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.ends.delete(end);
        resolve();
      };
      const timer = setTimeout(end, limitMs);
      this.ends.add(end);
      void promise.then(end);
    });
  }
}
