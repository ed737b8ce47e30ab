const LONGEST_MS = 20;
const MOST = 1000;
// What is under way on the network comes to the process within these.
const QUIET_TURNS = 3;

/**
 * Whether what waits for the disk is to wait for more to come: a stream brings about one message in a turn of the loop, and the wait for the disk is the same
 * for one and for a thousand. It goes on as long as the turns bring more, and no longer than the disk took the last time; where nothing comes it costs microseconds.
 */
export class Gathering {
  private count = 0;
  private quietTurns = 0;
  private until = 0;
  private lastMs = 0;

  /** Asked once in a turn; `count` wait. False: write them. */
  goesOn(count: number): boolean {
    const now = performance.now();
    if (this.count === 0) this.until = now + Math.min(this.lastMs, LONGEST_MS);
    this.quietTurns = count > this.count ? 0 : this.quietTurns + 1;
    const goesOn = count > 0 && count < MOST && this.quietTurns < QUIET_TURNS && now < this.until;
    this.count = goesOn ? count : 0;
    return goesOn;
  }

  /** The disk took so long. */
  took(ms: number): void {
    this.lastMs = ms;
  }
}
