/** A message that is made at the moment when it leaves; undefined: it shall not leave any more. */
type Make<Message> = () => Message | undefined;

interface Entry<Message> {
  readonly key: string | undefined;
  readonly make: Make<Message>;
  readonly settle: (sent: boolean) => void;
}

// A message that is handed over cannot be taken back, so it is not much at a time; but to wait for each alone would cost a turn of the event loop.
const AT_ONCE = 64;

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
   * for the outbox was closed, the message was dropped, or `make` did not want it any more.
   */
  async post(make: Make<Message>, key?: string): Promise<boolean> {
    return await new Promise<boolean>((settle) => {
      if (this.isClosed) return settle(false);
      this.entries.push({ key, make, settle });
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
    while (this.entries.length > 0) await this.handOver(this.entries.splice(0, AT_ONCE));
    this.isPumping = false;
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
