import type { AckEvent } from './chirpStackEvent';

/**
 * An uplink that waits for the acknowledgement that the same frame may have brought: ChirpStack publishes the uplink first. It waits until
 * that comes, until something comes that ChirpStack publishes later, or until its time is up.
 */
export class HeldFrame {
  /** The acknowledgement of the same frame; undefined: there is none. */
  readonly ack: Promise<HeldAck | undefined>;
  /** Called at its end, whatever that is. */
  onEnd: () => void = () => {};
  private readonly timer: NodeJS.Timeout;
  private settle: (ack: HeldAck | undefined) => void = () => {};
  private isOpen = true;

  constructor(
    readonly deduplicationId: string,
    waitMs: number,
  ) {
    this.ack = new Promise((resolve) => (this.settle = resolve));
    this.timer = setTimeout(() => this.release(), waitMs);
  }

  /** Takes an acknowledgement if it is that of this frame and comes in time. */
  take(ack: HeldAck): boolean {
    if (!this.isOpen || ack.event.deduplicationId !== this.deduplicationId) return false;
    this.end(ack);
    return true;
  }

  /** No acknowledgement will come. */
  release(): void {
    this.end(undefined);
  }

  private end(ack: HeldAck | undefined): void {
    this.isOpen = false;
    clearTimeout(this.timer);
    this.settle(ack);
    this.onEnd();
  }
}

/** An acknowledgement, and when it came. */
export interface HeldAck {
  readonly event: AckEvent;
  /** The stamp of its arrival. */
  readonly receivedAt: number;
}

/** Brokers send only so many messages ahead of our acknowledgements, often 20 in all: more than these would keep up the events of all other devices. */
const MOST_HELD = 8;

/** The uplinks of one connection that wait. The oldest one has waited in vain when there are too many. */
export class HeldFrames {
  private readonly frames = new Set<HeldFrame>();

  add(frame: HeldFrame): void {
    const [oldest] = this.frames;
    if (this.frames.size >= MOST_HELD) oldest?.release();
    this.frames.add(frame);
    frame.onEnd = () => this.frames.delete(frame);
  }

  /** Nothing is waited for any more. */
  releaseAll(): void {
    for (const frame of this.frames) frame.release();
  }
}
