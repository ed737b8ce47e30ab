// Clocks of machines differ by less than this: half a millisecond in a second.
const MOST_DRIFT = 0.0005;

/**
 * The clock of the server, as it is known from what it sent: that came not before it left. It tells when a moment of the server is by the clock of the
 * machine, at the latest; so what lay unread, in the network or because this process stood still, does not pass for new.
 */
export class ServerClock {
  /** How far the clock of the machine is ahead of that of the server, at the most, in milliseconds. */
  private ahead = Number.POSITIVE_INFINITY;
  private seenAt = 0;

  /** Something came now, by the clock of the machine, that left at this moment of the server. What came with the least delay counts, for as long as the clocks may have kept together. */
  saw(leftAt: number, now: number): void {
    const drift = Number.isFinite(this.ahead) ? Math.max(0, now - this.seenAt) * MOST_DRIFT : 0;
    this.ahead = Math.min(this.ahead + drift, now - leftAt);
    this.seenAt = now;
  }

  /** A moment of the server by the clock of the machine; infinite: nothing is known. */
  toMachine(moment: number): number {
    return moment + this.ahead;
  }
}
