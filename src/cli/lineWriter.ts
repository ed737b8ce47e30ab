import { write, writeSync } from 'node:fs';

const BUFFER_BYTES = 16 * 1024;
// What may wait for a reader who stopped reading, or for a disk that is full: more would take the server's memory.
const LONGEST_BACKLOG_BYTES = 8 * 1024 * 1024;
const RETRY_MS = 100;
const LAST_TRIES = 10;

/**
 * Writes lines to a file descriptor in order and together, never blocking and never failing: what cannot be written waits, and beyond 8 MiB
 * lines are dropped. The writer that the log library brings waits for ever on a full disk when it flushes at the end.
 */
export class LineWriter {
  private waiting: string[] = [];
  private waitingBytes = 0;
  /** What was handed to the system and is not written yet. */
  private rest: Buffer = Buffer.alloc(0);
  private isWriting = false;
  private dropped = 0;

  /** `onCaughtUp` is told how many lines were dropped, once lines can be written again. */
  constructor(
    private readonly fd: number,
    private readonly onCaughtUp: (dropped: number) => void,
  ) {}

  /** Takes a line with its end. */
  write(line: string): void {
    const bytes = Buffer.byteLength(line);
    if (this.waitingBytes + this.rest.length + bytes > LONGEST_BACKLOG_BYTES) {
      this.dropped += 1;
      return;
    }
    this.waiting.push(line);
    this.waitingBytes += bytes;
    if (this.waitingBytes >= BUFFER_BYTES) this.flush();
  }

  /** Begins to write what waits. Call it again and again: what failed is tried anew. */
  flush(): void {
    if (this.isWriting) return;
    if (this.rest.length === 0) this.take();
    if (this.rest.length === 0) return;
    this.isWriting = true;
    write(this.fd, this.rest, (error, written) => this.wrote(error, written));
  }

  /** Writes what waits before the process ends: for at most about a second, then it is lost. */
  flushSync(): void {
    if (this.isWriting) this.rest = Buffer.alloc(0); // the system has it
    this.isWriting = false;
    for (let tries = 0; tries < LAST_TRIES; ) {
      if (this.rest.length === 0) this.take();
      if (this.rest.length === 0) return;
      try {
        this.rest = this.rest.subarray(writeSync(this.fd, this.rest));
      } catch {
        tries += 1;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
      }
    }
  }

  private take(): void {
    this.rest = Buffer.from(this.waiting.join(''));
    this.waiting = [];
    this.waitingBytes = 0;
  }

  private wrote(error: NodeJS.ErrnoException | null, written: number): void {
    if (!this.isWriting) return; // the end came first
    this.isWriting = false;
    if (error?.code === 'EPIPE') this.rest = Buffer.alloc(0); // nobody is there to read, now or later
    else if (error) return; // the disk is full, or the reader slow: tried again with the next flush
    else this.rest = this.rest.subarray(written);
    if (this.rest.length === 0) this.tellDropped();
    this.flush();
  }

  private tellDropped(): void {
    const count = this.dropped;
    this.dropped = 0;
    if (count > 0) this.onCaughtUp(count);
  }
}
