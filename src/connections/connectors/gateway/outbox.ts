/** Creates a message at the time it is sent; undefined if it must no longer be sent. */
type CreateMessage<Message> = () => Message | undefined;

/** A waiting message. `resolve` reports whether it was passed to the transport. */
interface Entry<Message> {
  readonly key: string | undefined;
  readonly createMessage: CreateMessage<Message>;
  readonly bytes: number;
  readonly resolve: (sent: boolean) => void;
}

// A message that is passed on cannot be cancelled, so batches are small; but waiting for each message alone would cost
// a turn of the event loop.
const MAX_BATCH_SIZE = 64;
const WRITE_BATCH_BYTES = 16 * 1024;

/** The queue of messages to one stream. They are written in order, in batches, when the reader accepts more. */
export class Outbox<Message> {
  private entries: Entry<Message>[] = [];
  private isWriting = false;
  private isClosed = false;

  /**
   * `write` passes one message to the transport and resolves when the reader accepts more; it rejects only when the
   * stream has ended.
   */
  constructor(private readonly write: (message: Message) => Promise<void>) {}

  /** The number of waiting messages. */
  get size(): number {
    return this.entries.length;
  }

  /**
   * Queues a message. True: it was passed to the transport, with unknown outcome. False: provably no byte of it was
   * sent, because the outbox was closed, the message was removed, or `createMessage` returned undefined. `key`:
   * identifies the message for `remove`. `bytes`: its approximate size; may be omitted for small messages.
   */
  async post(createMessage: CreateMessage<Message>, key?: string, bytes = 0): Promise<boolean> {
    return await new Promise<boolean>((resolve) => {
      if (this.isClosed) {
        resolve(false);
        return;
      }
      this.entries.push({ key, createMessage, bytes, resolve });
      if (!this.isWriting) void this.writeAll();
    });
  }

  /** Removes the waiting message with this key. Returns whether there was one. */
  remove(key: string): boolean {
    const index = this.entries.findIndex((entry) => entry.key === key);
    if (index < 0) return false;
    this.entries.splice(index, 1)[0]?.resolve(false);
    return true;
  }

  /** Stops sending; all waiting messages are discarded. */
  close(): void {
    this.isClosed = true;
    for (const entry of this.entries) entry.resolve(false);
    this.entries = [];
  }

  /** Writes batches until no message is waiting. */
  private async writeAll(): Promise<void> {
    this.isWriting = true;
    while (this.entries.length > 0) await this.writeBatch(this.takeBatch());
    this.isWriting = false;
  }

  /**
   * Removes and returns the next batch: the next message whatever its size, and following ones up to the batch limits.
   */
  private takeBatch(): Entry<Message>[] {
    let count = 0;
    for (let totalBytes = 0; count < Math.min(this.entries.length, MAX_BATCH_SIZE); count++) {
      totalBytes += this.entries[count]?.bytes ?? 0;
      if (count > 0 && totalBytes > WRITE_BATCH_BYTES) break;
    }
    return this.entries.splice(0, count);
  }

  /** Writes a batch, and waits until the reader accepts more. */
  private async writeBatch(entries: readonly Entry<Message>[]): Promise<void> {
    const written: Promise<void>[] = [];
    for (const { createMessage, resolve } of entries) {
      const message = this.isClosed ? undefined : createMessage();
      if (message !== undefined) written.push(this.write(message));
      resolve(message !== undefined);
    }
    await Promise.all(written).catch(() => this.close()); // the stream has ended, and its handler reports why
  }
}
