// The maximum drift between two machines: half a millisecond per second.
const MAX_DRIFT = 0.0005;

/**
 * Estimates the clock of the server from the times in its messages. A message cannot arrive before it is sent, so each
 * message gives an upper limit of how far the machine clock is ahead of the server clock; the message with the least
 * delay gives the best limit. A server time that is converted with this limit is too late by at most that delay.
 */
export class ServerClock {
  /** The maximum lead of the machine clock over the server clock, in milliseconds. */
  private maxLeadMs = Number.POSITIVE_INFINITY;
  private observedAt = 0;

  /**
   * Records a message that was sent at `sentAt` by the server clock and arrived at `arrivedAt` by the machine clock, in
   * milliseconds. The limit is the smaller one of the lead that this message shows, and the limit so far plus the drift
   * that was possible since the last message.
   */
  observe(sentAt: number, arrivedAt: number): void {
    const drift = Number.isFinite(this.maxLeadMs) ? Math.max(0, arrivedAt - this.observedAt) * MAX_DRIFT : 0;
    this.maxLeadMs = Math.min(this.maxLeadMs + drift, arrivedAt - sentAt);
    this.observedAt = arrivedAt;
  }

  /** Converts a server time to the clock of the machine; infinite if no message arrived yet. */
  toMachineTime(serverTime: number): number {
    return serverTime + this.maxLeadMs;
  }
}
