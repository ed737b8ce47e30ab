/** A message that is made at the moment when it leaves; undefined: it shall not leave any more. */
type Make<Message> = () => Message | undefined;

interface Entry<Message> {
  readonly key: string | undefined;
  readonly make: Make<Message>;
  readonly bytes: number;
  readonly settle: (sent: boolean) => void;
}

// A message that is handed over cannot be taken back, so it is not much at a time; but to wait for each alone would cost a turn of the event loop.
const MOST_AT_ONCE = 64;
const BYTES_AT_ONCE = 16 * 1024;

/** What waits to be written to one stream: in order, what has gathered at a time, when the reader has room for it. */
export class Outbox<Message> {
  private entries: Entry<Message>[] = [];
  private isPumping = false;
  private isClosed = false;

  /** `write` hands one message to the transport and resolves when the reader has room for more; it rejects only when the stream is over. */
  constructor(private readonly write: (message: Message) => Promise<void>) {}

  /** How many messages wait. */
  get size(): number {
    return this.entries.length;
  }

  /**
   * Queues a message. True: it was handed to the transport, whatever became of it there. False: provably no byte of it left,
   * for the outbox was closed, the message was dropped, or `make` did not want it any more. `bytes`: about how many it has; those of a
   * small message need not be counted.
   */
  async post(make: Make<Message>, key?: string, bytes = 0): Promise<boolean> {
    return await new Promise<boolean>((settle) => {
      if (this.isClosed) return settle(false);
      this.entries.push({ key, make, bytes, settle });
      if (!this.isPumping) void this.pump();
    });
  }

  /** Drops the message that waits under this key. Answers whether there was one. */
  drop(key: string): boolean {
    const at = this.entries.findIndex((entry) => entry.key === key);
    if (at < 0) return false;
    this.entries.splice(at, 1)[0]?.settle(false);
    return true;
  }

  /** Nothing leaves any more. */
  close(): void {
    this.isClosed = true;
    for (const entry of this.entries) entry.settle(false);
    this.entries = [];
  }

  private async pump(): Promise<void> {
    this.isPumping = true;
    while (this.entries.length > 0) await this.handOver(this.portion());
    this.isPumping = false;
  }

  /** The next message, and those behind it that are not much together with it. */
  private portion(): Entry<Message>[] {
    let count = 0;
    for (let bytes = 0; count < Math.min(this.entries.length, MOST_AT_ONCE); count++) {
      bytes += this.entries[count]?.bytes ?? 0;
      if (count > 0 && bytes > BYTES_AT_ONCE) break;
    }
    return this.entries.splice(0, count);
  }

  /** Hands these over, and waits until the reader has room for more. */
  private async handOver(entries: readonly Entry<Message>[]): Promise<void> {
    const written: Promise<void>[] = [];
    for (const { make, settle } of entries) {
      const message = this.isClosed ? undefined : make();
      if (message !== undefined) written.push(this.write(message));
      settle(message !== undefined);
    }
    await Promise.all(written).catch(() => this.close()); // the stream is over, and its handler says why
  }
}
