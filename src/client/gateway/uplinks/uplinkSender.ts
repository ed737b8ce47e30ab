import { Uplink, type UplinkAck, UplinkOutcome } from '../../gen/gateway/v1/gateway_service';
import type { GatewayEvent } from '../events';
import { Fifo } from '../fifo';
import type { Attachment } from '../link/attachment';
import type { GatewayStore, QueuedUplink } from '../store/gatewayStore';
import type { StoreWriter } from '../store/storeWriter';
import { clientDeviceIdOf } from './uplinkMessage';

/** What sending uplinks needs. */
export interface UplinkSenderOptions {
  readonly store: GatewayStore;
  readonly writer: StoreWriter;
  /** Undefined: nobody listens. */
  readonly report: ((event: GatewayEvent) => void) | undefined;
  /** What nobody reckoned with. */
  readonly fail: (error: unknown) => void;
}

interface InFlight {
  readonly uplink: QueuedUplink;
  /** The tick at which it was last sent. */
  sentAt: number;
}

type Shown = Extract<GatewayEvent, { event: 'uplink_acknowledged' }>['outcome'];

// What may be unacknowledged at a time.
const MOST_IN_FLIGHT = 1000;
const MOST_BYTES_IN_FLIGHT = 4 * 1024 * 1024;
const PAGE = 256;
const TICK_MS = 10_000;
// What was not acknowledged for so many ticks is sent again.
const PATIENCE_TICKS = 3;

const OUTCOMES: Readonly<Partial<Record<UplinkOutcome, Shown>>> = {
  [UplinkOutcome.UPLINK_OUTCOME_STORED]: 'stored',
  [UplinkOutcome.UPLINK_OUTCOME_DUPLICATE]: 'duplicate',
  [UplinkOutcome.UPLINK_OUTCOME_REJECTED]: 'rejected',
};

/** Sends what the store holds, in the order in which it came, at most a window of it unacknowledged; after a cut and after half a minute again. */
export class UplinkSender {
  /** In the order in which they were first sent. */
  private readonly inFlight = new Map<string, InFlight>();
  private bytesInFlight = 0;
  /** Of those in flight the ones to send again. */
  private readonly again = new Fifo<InFlight>();
  /** Read from the store and not sent yet. */
  private readonly fresh = new Fifo<QueuedUplink>();
  /** Up to where the store was read. */
  private position = 0;
  private hasMore = true;
  /** How many of an earlier start are still to be read from the store. */
  private old: number;
  private attachment: Attachment | undefined;
  private turn: NodeJS.Immediate | undefined;
  private tick = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: UplinkSenderOptions) {
    this.old = options.store.uplinkCount;
  }

  /** The server welcomed the gateway: what is in flight is sent again, then the rest. */
  attach(attachment: Attachment): void {
    this.attachment = attachment;
    this.again.replace([...this.inFlight.values()]);
    this.timer = setInterval(() => this.sendOverdue(), TICK_MS);
    this.send();
  }

  /** The stream ended. */
  detach(): void {
    this.attachment = undefined;
    clearInterval(this.timer);
    clearImmediate(this.turn);
    this.turn = undefined;
  }

  /** There are new ones in the store. Those of one turn are sent together. */
  added(): void {
    this.hasMore = true;
    this.sendSoon();
  }

  /** There is room on the stream. */
  roomMade(): void {
    this.send();
  }

  /** The server has one, or will never take it. One that it does not say anything known of is kept, and so is one that was not sent; of one that was sent twice the first answer counts. */
  acknowledge({ uplinkId, outcome, reason }: UplinkAck): void {
    const shown = OUTCOMES[outcome];
    const entry = this.inFlight.get(uplinkId);
    if (shown === undefined || !entry) return;
    this.inFlight.delete(uplinkId);
    this.bytesInFlight -= entry.uplink.message.length;
    this.options.report?.({ event: 'uplink_acknowledged', uplinkId, outcome: shown, reason });
    this.options.writer.writeLater({ kind: 'uplink_acknowledged', uplinkId });
    this.sendSoon();
  }

  /** Whether everything that was kept is acknowledged. */
  get isEmpty(): boolean {
    return this.inFlight.size === 0 && this.fresh.size === 0 && !this.hasMore;
  }

  private sendSoon(): void {
    if (this.attachment) this.turn ??= setImmediate(this.onTurn);
  }

  private readonly onTurn = (): void => {
    this.turn = undefined;
    this.send();
  };

  private send(): void {
    try {
      while (this.attachment?.hasRoom && this.sendNext());
    } catch (error) {
      this.options.fail(error); // the store could not be read
    }
  }

  /** Answers whether there was one to send, and room for it in the window. */
  private sendNext(): boolean {
    const repeated = this.again.take();
    if (repeated) {
      if (this.inFlight.get(repeated.uplink.uplinkId) === repeated) this.write(repeated);
      return true;
    }
    while (this.fresh.size === 0 && this.hasMore) this.read();
    const uplink = this.fresh.peek();
    if (!uplink || !this.hasWindowFor(uplink)) return false;
    this.fresh.take();
    const entry = { uplink, sentAt: this.tick };
    this.inFlight.set(uplink.uplinkId, entry);
    this.bytesInFlight += uplink.message.length;
    this.write(entry);
    return true;
  }

  private hasWindowFor({ message }: QueuedUplink): boolean {
    return this.inFlight.size === 0 || (this.inFlight.size < MOST_IN_FLIGHT && this.bytesInFlight + message.length <= MOST_BYTES_IN_FLIGHT);
  }

  private read(): void {
    const page = this.options.store.uplinksAfter(this.position, PAGE);
    this.hasMore = page.length > 0;
    this.position = page.at(-1)?.position ?? this.position;
    this.fresh.replace(page.filter((uplink) => this.isSound(uplink)));
  }

  /** What an earlier start left is looked at, once: bytes that rotted on the disk would end every stream. They are forgotten. */
  private isSound({ uplinkId, message }: QueuedUplink): boolean {
    if (this.old === 0) return true;
    this.old -= 1;
    try {
      Uplink.decode(message);
      return true;
    } catch {
      this.options.report?.({ event: 'uplink_refused', clientDeviceId: '', message: `what the store kept of uplink ${uplinkId} cannot be read any more` });
      this.options.writer.writeLater({ kind: 'uplink_acknowledged', uplinkId });
      return false;
    }
  }

  private write(entry: InFlight): void {
    const { uplinkId, message } = entry.uplink;
    entry.sentAt = this.tick;
    this.options.report?.({ event: 'uplink_sent', uplinkId, clientDeviceId: clientDeviceIdOf(message) });
    this.attachment?.sendUplink(message);
  }

  /** Once all that was to be sent again has left, so that a server that does not read is not sent more and more. */
  private sendOverdue(): void {
    this.tick += 1;
    if (this.again.size > 0) return;
    this.again.replace([...this.inFlight.values()].filter(({ sentAt }) => this.tick - sentAt >= PATIENCE_TICKS));
    this.send();
  }
}
