import type { AckEvent } from './chirpStackEvent';

/**
 * An uplink that waits for an acknowledgement in the same frame: ChirpStack publishes the uplink first. It waits until
 * the acknowledgement or a later event of ChirpStack arrives, or until a timeout.
 */
export class PendingUplink {
  /** The acknowledgement in the same frame; undefined if there is none. */
  readonly ack: Promise<ReceivedAck | undefined>;
  /** Called when the wait ends for any reason. */
  onEnd: () => void = () => {};
  private readonly timer: NodeJS.Timeout;
  private resolveAck: (ack: ReceivedAck | undefined) => void = () => {};
  private isOpen = true;

  constructor(
    readonly deduplicationId: string,
    waitMs: number,
  ) {
    this.ack = new Promise((resolve) => (this.resolveAck = resolve));
    this.timer = setTimeout(() => this.release(), waitMs);
  }

  /** Accepts an acknowledgement if it belongs to this frame and is in time. Returns whether it was accepted. */
  acceptAck(ack: ReceivedAck): boolean {
    if (!this.isOpen || ack.event.deduplicationId !== this.deduplicationId) return false;
    this.finish(ack);
    return true;
  }

  /** Ends the wait without an acknowledgement. */
  release(): void {
    this.finish(undefined);
  }

  /** Ends the wait; only the first call has an effect on `ack`. */
  private finish(ack: ReceivedAck | undefined): void {
    this.isOpen = false;
    clearTimeout(this.timer);
    this.resolveAck(ack);
    this.onEnd();
  }
}

/** An acknowledgement and its arrival time. */
export interface ReceivedAck {
  readonly event: AckEvent;
  /** Its arrival time, from MonotonicTimestamps. */
  readonly receivedAt: number;
}

/**
 * Brokers send only a limited number of messages before our acknowledgements, often 20: more waiting uplinks would
 * block the events of all other devices.
 */
const MAX_PENDING_UPLINKS = 8;

/** The waiting uplinks of one connection. If there are too many, the oldest one stops waiting. */
export class PendingUplinkBuffer {
  private readonly uplinks = new Set<PendingUplink>();

  /** Adds an uplink until its wait ends; if there are too many, the oldest one stops waiting. */
  add(uplink: PendingUplink): void {
    const [oldest] = this.uplinks; // a set keeps the order of insertion
    if (this.uplinks.size >= MAX_PENDING_UPLINKS) oldest?.release();
    this.uplinks.add(uplink);
    uplink.onEnd = () => this.uplinks.delete(uplink);
  }

  /** Ends the wait of all uplinks. */
  releaseAll(): void {
    for (const uplink of this.uplinks) uplink.release();
  }
}
