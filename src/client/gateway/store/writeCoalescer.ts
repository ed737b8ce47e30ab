const MAX_DELAY_MS = 20;
const MAX_BATCH_SIZE = 1000;
// Data that is arriving on the network reaches the process within this number of event loop turns.
const QUIET_TURNS = 3;

/**
 * Decides whether pending writes should wait for more. A stream delivers about one message per turn of the event loop,
 * and a disk write takes the same time for one as for a thousand. It waits as long as turns bring more writes, and at
 * most as long as the last disk write took. If nothing arrives, it costs microseconds.
 */
export class WriteCoalescer {
  private previousCount = 0;
  private quietTurns = 0;
  private waitUntil = 0;
  private lastWriteMs = 0;

  /**
   * Decides whether the pending writes should wait for one more turn of the event loop; false: write them now. Call it
   * once per turn with the number of pending writes. It is true while new writes arrived in one of the last QUIET_TURNS
   * turns, and at most as long as the last disk write took.
   */
  shouldWait(pendingCount: number): boolean {
    const now = performance.now();
    if (this.previousCount === 0) this.waitUntil = now + Math.min(this.lastWriteMs, MAX_DELAY_MS);
    this.quietTurns = pendingCount > this.previousCount ? 0 : this.quietTurns + 1;
    const shouldWait =
      pendingCount > 0 && pendingCount < MAX_BATCH_SIZE && this.quietTurns < QUIET_TURNS && now < this.waitUntil;
    this.previousCount = shouldWait ? pendingCount : 0;
    return shouldWait;
  }

  /** Records the duration of a disk write in milliseconds. */
  recordWriteTime(ms: number): void {
    this.lastWriteMs = ms;
  }
}
