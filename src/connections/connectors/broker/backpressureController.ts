/** The limits for messages in progress. */
interface BackpressureOptions {
  /** Reading pauses while this many messages, or this many bytes of messages, are in progress. */
  readonly maxMessages: number;
  readonly maxBytes: number;
  /** Called when reading must pause, and when it may continue. */
  readonly onReadingPaused: (isPaused: boolean) => void;
  /** Called every `getKeepaliveIntervalMs()` while reading is paused. */
  readonly sendKeepalive: () => void;
  readonly getKeepaliveIntervalMs: () => number;
}

/**
 * Tracks the received messages in progress, and pauses reading while there are too many, so that the broker must wait.
 */
export class BackpressureController {
  private messageCount = 0;
  private totalBytes = 0;
  /** Runs while reading is paused. */
  private keepaliveTimer: NodeJS.Timeout | undefined;
  private readonly idleWaiters = new Set<() => void>();

  constructor(private readonly options: BackpressureOptions) {}

  /** Whether reading is paused. While it is, responses of the broker wait too. */
  get isReadingPaused(): boolean {
    return this.keepaliveTimer !== undefined;
  }

  /** Processes a message of `bytes` bytes. The work must not reject. */
  async run(bytes: number, work: () => Promise<void>): Promise<void> {
    this.messageCount += 1;
    this.totalBytes += bytes;
    const working = work();
    if (this.isFull && !this.isReadingPaused) this.pauseReading();
    await working;
    this.messageCount -= 1;
    this.totalBytes -= bytes;
    if (!this.isFull && this.isReadingPaused) this.resumeReading();
    if (this.messageCount === 0) this.idleWaiters.forEach((resolve) => resolve());
  }

  /** Resolves when no message is in progress, or after `timeoutMs`. */
  async waitUntilIdle(timeoutMs: number): Promise<void> {
    if (this.messageCount === 0) return;
    await new Promise<void>((resolve) => {
      const finish = (): void => {
        clearTimeout(timer);
        this.idleWaiters.delete(finish);
        resolve();
      };
      const timer = setTimeout(finish, timeoutMs);
      this.idleWaiters.add(finish);
    });
  }

  /** Stops the keepalive timer, because the connection is closed. */
  dispose(): void {
    clearInterval(this.keepaliveTimer);
  }

  private get isFull(): boolean {
    return this.messageCount >= this.options.maxMessages || this.totalBytes >= this.options.maxBytes;
  }

  /** Pauses reading. Keepalives are sent meanwhile, because the library sees no responses of the broker. */
  private pauseReading(): void {
    this.keepaliveTimer = setInterval(this.options.sendKeepalive, this.options.getKeepaliveIntervalMs());
    this.options.onReadingPaused(true);
  }

  private resumeReading(): void {
    clearInterval(this.keepaliveTimer);
    this.keepaliveTimer = undefined;
    this.options.onReadingPaused(false);
  }
}
