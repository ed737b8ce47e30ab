import { FIRST_DEV_ADDR, type ClassName, type DownCommand } from './events';

/** A downlink in the queue of a device. */
export interface QueueItem extends DownCommand {
  /** A gateway accepted it and the device has not acknowledged it yet. */
  isPending: boolean;
}

/** An item that will not be sent, with the reason. */
export type Discarded = { readonly item: QueueItem; readonly why: 'unacknowledged' | 'expired' | 'too_large' };

/** The state that the network server stores of one device. */
export class DeviceState {
  /** One FIFO without a limit. No item can be removed from its middle. */
  queue: QueueItem[] = [];
  /** The item that was sent to a gateway that has not answered. */
  atGateway: QueueItem | undefined;
  fCntUp = 0;
  fCntDown = 0;
  private sessions = 0;

  constructor(
    readonly devEui: string,
    readonly className: ClassName,
    /** Whether its device profile has a codec. */
    readonly hasCodec: boolean,
  ) {}

  /** Returns what the codec decodes from a frame, or undefined without a codec. */
  decoded<Content>(object: Content): Content | undefined {
    return this.hasCodec ? object : undefined;
  }

  /** Starts the session of a join: it has a new address, and its uplinks are counted from 0. */
  startSession(): void {
    this.sessions += 1;
    this.fCntUp = -1;
  }

  get devAddr(): string {
    return (Number.parseInt(FIRST_DEV_ADDR, 16) + this.sessions).toString(16).padStart(8, '0');
  }

  /** Throws for an ID that is in the queue, as the key of the table does. */
  enqueue(command: DownCommand): void {
    if (this.queue.some(({ id }) => id === command.id))
      throw new Error(`duplicate key value violates unique constraint "device_queue_item_pkey": ${command.id}`);
    this.queue.push({ ...command, isPending: false });
  }

  /**
   * Computes a downlink. Only this checks for old items: it passes the next item to a gateway, and returns the items
   * that it discarded before. A pending item of class A ends with the next opportunity, one of class B or C when its
   * time is over.
   */
  nextDownlink(
    now: number,
    largest: number,
    isTimedOut: boolean,
  ): { readonly discarded: Discarded[]; readonly item: QueueItem | undefined } {
    const discarded: Discarded[] = [];
    for (let item = this.queue[0]; item; item = this.queue[0]) {
      if (item.isPending && this.className !== 'CLASS_A' && !isTimedOut) return { discarded, item: undefined };
      const why = findFault(item, now, largest);
      if (why === undefined) {
        this.atGateway = item;
        return { discarded, item };
      }
      discarded.push({ item, why });
      this.queue.shift();
    }
    return { discarded, item: undefined };
  }

  /** Records that the gateway accepted the item: an unconfirmed one is done, a confirmed one waits. */
  taken(item: QueueItem): void {
    this.atGateway = undefined;
    this.fCntDown += 1;
    item.isPending = item.confirmed;
    if (!item.confirmed) this.remove(item);
  }

  /** Records that the device acknowledged the pending item. Returns the item, or undefined if none was pending. */
  acknowledge(): QueueItem | undefined {
    const pending = this.queue.find(({ isPending }) => isPending);
    if (pending) this.remove(pending);
    return pending;
  }

  /** Starts a new session for a join. The queue is discarded without an event. */
  flush(): void {
    this.queue = [];
    this.atGateway = undefined;
    this.fCntUp = 0;
    this.fCntDown = 0;
  }

  private remove(item: QueueItem): void {
    this.queue = this.queue.filter((other) => other !== item);
  }
}

function findFault(item: QueueItem, now: number, largest: number): Discarded['why'] | undefined {
  if (item.isPending) return 'unacknowledged';
  if (item.expiresAt !== undefined && item.expiresAt <= now) return 'expired';
  return item.data.length > largest ? 'too_large' : undefined;
}
