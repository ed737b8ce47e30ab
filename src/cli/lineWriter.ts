import { write, writeSync } from 'node:fs';

const BUFFER_BYTES = 16 * 1024;
// The limit of lines in memory while the reader is slow or the disk is full; more would exhaust the memory.
const MAX_BACKLOG_BYTES = 8 * 1024 * 1024;
const RETRY_INTERVAL_MS = 100;
const MAX_FINAL_ATTEMPTS = 10;

/**
 * Writes lines to a file descriptor, in order and in batches. It never blocks and never fails: lines that cannot be
 * written wait, and lines beyond 8 MiB are dropped. The writer of the log library would wait forever on a full disk
 * when it flushes at exit.
 */
export class LineWriter {
  private waiting: string[] = [];
  private waitingBytes = 0;
  /** Bytes that are being written. */
  private batch: Buffer = Buffer.alloc(0);
  private isWriting = false;
  private droppedCount = 0;

  /** `onCaughtUp` is called with the number of dropped lines when lines can be written again. */
  constructor(
    private readonly fd: number,
    private readonly onCaughtUp: (dropped: number) => void,
  ) {}

  /** Adds a line, including its line end. */
  write(line: string): void {
    const bytes = Buffer.byteLength(line);
    if (this.waitingBytes + this.batch.length + bytes > MAX_BACKLOG_BYTES) {
      this.droppedCount += 1;
      return;
    }
    this.waiting.push(line);
    this.waitingBytes += bytes;
    if (this.waitingBytes >= BUFFER_BYTES) this.flush();
  }

  /** Starts to write the waiting lines. Call it periodically: a failed write is retried by the next call. */
  flush(): void {
    if (this.isWriting) return;
    if (this.batch.length === 0) this.prepareBatch();
    if (this.batch.length === 0) return;
    this.isWriting = true;
    write(this.fd, this.batch, (error, written) => this.onWritten(error, written));
  }

  /**
   * Writes the waiting lines before the process exits. Gives up after about a second; the remaining lines are then
   * lost.
   */
  flushSync(): void {
    if (this.isWriting) this.batch = Buffer.alloc(0); // already passed to the operating system
    this.isWriting = false;
    for (let failures = 0; failures < MAX_FINAL_ATTEMPTS;) {
      if (this.batch.length === 0) this.prepareBatch();
      if (this.batch.length === 0) return;
      try {
        this.batch = this.batch.subarray(writeSync(this.fd, this.batch));
      } catch {
        failures += 1;
        sleepSync(RETRY_INTERVAL_MS);
      }
    }
  }

  /** Moves the waiting lines to the batch, which must be empty. */
  private prepareBatch(): void {
    this.batch = Buffer.from(this.waiting.join(''));
    this.waiting = [];
    this.waitingBytes = 0;
  }

  /** Continues after a write: removes what was written from the batch, or leaves it for the next flush. */
  private onWritten(error: NodeJS.ErrnoException | null, written: number): void {
    if (!this.isWriting) return; // flushSync was called first
    this.isWriting = false;
    if (error?.code === 'EPIPE')
      this.batch = Buffer.alloc(0); // the reader has closed the pipe
    else if (error)
      return; // the disk is full, or the reader is slow: the next flush retries
    else this.batch = this.batch.subarray(written);
    if (this.batch.length === 0) this.reportDropped();
    this.flush();
  }

  /** Reports the number of dropped lines, if any, and counts from zero again. */
  private reportDropped(): void {
    const count = this.droppedCount;
    this.droppedCount = 0;
    if (count > 0) this.onCaughtUp(count);
  }
}

/** Blocks the process, because nothing asynchronous runs any more at its exit. */
function sleepSync(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}
