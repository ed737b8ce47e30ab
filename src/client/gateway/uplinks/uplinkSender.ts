import { Uplink, type UplinkAck, UplinkOutcome } from '../../gen/gateway/v1/gateway_service';
import type { GatewayEvent } from '../events';
import { FifoQueue } from '../fifoQueue';
import type { Attachment } from '../link/attachment';
import type { GatewayStore, QueuedUplink } from '../store/gatewayStore';
import type { StoreWriter } from '../store/storeWriter';
import { getClientDeviceId } from './uplinkMessage';

/** Dependencies of UplinkSender. */
export interface UplinkSenderOptions {
  readonly store: GatewayStore;
  readonly writer: StoreWriter;
  /** Undefined: there is no listener. */
  readonly report: ((event: GatewayEvent) => void) | undefined;
  /** Called for unexpected errors. */
  readonly fail: (error: unknown) => void;
}

/** An uplink that was sent and not acknowledged yet. */
interface UnacknowledgedUplink {
  readonly uplink: QueuedUplink;
  /** The tick of the last sending. */
  sentAtTick: number;
}

type OutcomeName = Extract<GatewayEvent, { event: 'uplink_acknowledged' }>['outcome'];

// Limits of the uplinks in flight: those that were sent and are not acknowledged.
const MAX_IN_FLIGHT = 1000;
const MAX_BYTES_IN_FLIGHT = 4 * 1024 * 1024;
const PAGE_SIZE = 256;
const TICK_MS = 10_000;
// An uplink without an acknowledgement is sent again after this number of ticks.
const RESEND_AFTER_TICKS = 3;

const OUTCOMES: Readonly<Partial<Record<UplinkOutcome, OutcomeName>>> = {
  [UplinkOutcome.UPLINK_OUTCOME_STORED]: 'stored',
  [UplinkOutcome.UPLINK_OUTCOME_DUPLICATE]: 'duplicate',
  [UplinkOutcome.UPLINK_OUTCOME_REJECTED]: 'rejected',
};

/**
 * Sends the stored uplinks in the order of their arrival, with a limited number of unacknowledged ones. Sends them
 * again after a reconnect, and after 30 s without an acknowledgement.
 */
export class UplinkSender {
  /** In the order of their first sending. */
  private readonly inFlight = new Map<string, UnacknowledgedUplink>();
  private bytesInFlight = 0;
  /** The uplinks in flight that must be sent again. */
  private readonly toResend = new FifoQueue<UnacknowledgedUplink>();
  /** Uplinks that were read from the store and not sent yet. */
  private readonly unsent = new FifoQueue<QueuedUplink>();
  /** The position up to which the store was read. */
  private lastReadPosition = 0;
  private hasMoreInStore = true;
  /** How many of the next uplinks in the store are of an earlier start, and must be checked when they are read. */
  private uncheckedUplinkCount: number;
  private attachment: Attachment | undefined;
  private immediate: NodeJS.Immediate | undefined;
  private tick = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: UplinkSenderOptions) {
    this.uncheckedUplinkCount = options.store.uplinkCount;
  }

  /**
   * Called after the welcome of the server: sends the uplinks in flight again, then the uplinks that were not sent yet.
   */
  attach(attachment: Attachment): void {
    this.attachment = attachment;
    this.toResend.replace([...this.inFlight.values()]);
    this.timer = setInterval(() => this.sendOverdue(), TICK_MS);
    this.send();
  }

  /** Called when the stream has ended. */
  detach(): void {
    this.attachment = undefined;
    clearInterval(this.timer);
    clearImmediate(this.immediate);
    this.immediate = undefined;
  }

  /** Called after uplinks were stored. Uplinks of one event loop turn are sent together. */
  onAdded(): void {
    this.hasMoreInStore = true;
    this.sendSoon();
  }

  /** Called when the stream accepts messages again. */
  onWritable(): void {
    this.send();
  }

  /**
   * Handles the acknowledgement of an uplink: the server has stored it or will never accept it. An unknown outcome, or
   * an uplink that was not sent, is ignored, and the uplink stays in the store. For an uplink that was sent twice, the
   * first acknowledgement counts.
   */
  acknowledge({ uplinkId, outcome, reason }: UplinkAck): void {
    const outcomeName = OUTCOMES[outcome];
    const entry = this.inFlight.get(uplinkId);
    if (outcomeName === undefined || !entry) return;
    this.inFlight.delete(uplinkId);
    this.bytesInFlight -= entry.uplink.message.length;
    this.options.report?.({ event: 'uplink_acknowledged', uplinkId, outcome: outcomeName, reason });
    this.options.writer.writeLater({ kind: 'uplink_acknowledged', uplinkId });
    this.sendSoon();
  }

  /** Whether all stored uplinks are acknowledged. */
  get isEmpty(): boolean {
    return this.inFlight.size === 0 && this.unsent.size === 0 && !this.hasMoreInStore;
  }

  private sendSoon(): void {
    if (this.attachment) this.immediate ??= setImmediate(this.onImmediate);
  }

  private readonly onImmediate = (): void => {
    this.immediate = undefined;
    this.send();
  };

  /** Sends uplinks until the stream accepts no more or none is left. */
  private send(): void {
    try {
      let mayHaveMore = true;
      while (mayHaveMore && this.attachment?.isWritable) mayHaveMore = this.sendNext();
    } catch (error) {
      this.options.fail(error); // The store could not be read.
    }
  }

  /** Sends the next uplink. Returns false if there is none or the limit of unacknowledged uplinks is reached. */
  private sendNext(): boolean {
    const entryToResend = this.toResend.take();
    if (entryToResend) {
      // It may have been acknowledged since it was queued.
      const isInFlight = this.inFlight.get(entryToResend.uplink.uplinkId) === entryToResend;
      if (isInFlight) this.write(entryToResend);
      return true;
    }
    while (this.unsent.size === 0 && this.hasMoreInStore) this.readPage();
    const uplink = this.unsent.peek();
    if (!uplink || !this.fitsInFlight(uplink)) return false;
    this.unsent.take();
    const entry = { uplink, sentAtTick: this.tick };
    this.inFlight.set(uplink.uplinkId, entry);
    this.bytesInFlight += uplink.message.length;
    this.write(entry);
    return true;
  }

  /** Whether one more uplink may be unacknowledged. A single large one always may. */
  private fitsInFlight({ message }: QueuedUplink): boolean {
    return (
      this.inFlight.size === 0 ||
      (this.inFlight.size < MAX_IN_FLIGHT && this.bytesInFlight + message.length <= MAX_BYTES_IN_FLIGHT)
    );
  }

  /** Reads the next page of uplinks from the store. */
  private readPage(): void {
    const page = this.options.store.uplinksAfter(this.lastReadPosition, PAGE_SIZE);
    this.hasMoreInStore = page.length > 0;
    this.lastReadPosition = page.at(-1)?.position ?? this.lastReadPosition;
    this.unsent.replace(this.removeCorruptUplinks(page));
  }

  /**
   * Returns the uplinks that can be sent. Those of an earlier start are checked, because the server would end every
   * stream on which corrupt bytes are sent. Corrupt uplinks are reported and removed from the store.
   */
  private removeCorruptUplinks(page: readonly QueuedUplink[]): QueuedUplink[] {
    return page.filter((uplink) => {
      if (this.uncheckedUplinkCount === 0) return true;
      this.uncheckedUplinkCount -= 1;
      if (isDecodable(uplink)) return true;
      this.deleteCorruptUplink(uplink);
      return false;
    });
  }

  /** Reports a corrupt uplink and removes it from the store, in the same way as an acknowledged one. */
  private deleteCorruptUplink({ uplinkId }: QueuedUplink): void {
    this.options.report?.({
      event: 'uplink_rejected',
      clientDeviceId: '',
      message: `the stored uplink ${uplinkId} is unreadable`,
    });
    this.options.writer.writeLater({ kind: 'uplink_acknowledged', uplinkId });
  }

  /** Sends an uplink on the current stream and notes when. */
  private write(entry: UnacknowledgedUplink): void {
    const { uplinkId, message } = entry.uplink;
    entry.sentAtTick = this.tick;
    this.options.report?.({ event: 'uplink_sent', uplinkId, clientDeviceId: getClientDeviceId(message) });
    this.attachment?.sendUplink(message);
  }

  /**
   * Counts a tick (10 s), and sends uplinks again that have not been acknowledged for 30 s, but only after all earlier
   * repetitions were sent, so that a server that does not read is not flooded.
   */
  private sendOverdue(): void {
    this.tick += 1;
    if (this.toResend.size > 0) return;
    this.toResend.replace(
      [...this.inFlight.values()].filter(({ sentAtTick }) => this.tick - sentAtTick >= RESEND_AFTER_TICKS),
    );
    this.send();
  }
}

/** Whether the stored bytes of an uplink are a message. */
function isDecodable({ message }: QueuedUplink): boolean {
  try {
    Uplink.decode(message);
    return true;
  } catch {
    return false;
  }
}
