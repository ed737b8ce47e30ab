import type { ClassName, DownCommand } from './events';

/** A downlink in the queue of a device. */
export interface QueueItem extends DownCommand {
  /** A gateway took it and the device has not acknowledged it yet. */
  isPending: boolean;
}

/** What became of an item that will not be sent. */
export type Discarded = { readonly item: QueueItem; readonly why: 'unacknowledged' | 'expired' | 'too_large' };

/** What the network server keeps of one device. */
export class DeviceState {
  /** One FIFO; nothing can be taken out of its middle, and it has no limit. */
  queue: QueueItem[] = [];
  /** Given to a gateway that has not answered. */
  atGateway: QueueItem | undefined;
  fCntUp = 0;
  fCntDown = 0;

  constructor(
    readonly devEui: string,
    readonly className: ClassName,
  ) {}

  /** Throws for an id that is in the queue, as the key of the table does. */
  enqueue(command: DownCommand): void {
    if (this.queue.some(({ id }) => id === command.id)) throw new Error(`duplicate key value violates unique constraint "device_queue_item_pkey": ${command.id}`);
    this.queue.push({ ...command, isPending: false });
  }

  /**
   * Computes a downlink, which is the only moment at which it looks at what is old: gives the next item to a gateway, and answers what it
   * threw away before. A pending item of class A ends with the next opportunity, one of class B or C when its time is over.
   */
  nextDownlink(now: number, largest: number, isTimedOut: boolean): { readonly discarded: Discarded[]; readonly item: QueueItem | undefined } {
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

  /** The gateway took the item: an unconfirmed one is done, a confirmed one waits. */
  taken(item: QueueItem): void {
    this.atGateway = undefined;
    this.fCntDown += 1;
    item.isPending = item.confirmed;
    if (!item.confirmed) this.remove(item);
  }

  /** The device acknowledged what was pending; undefined: nothing was. */
  acknowledge(): QueueItem | undefined {
    const pending = this.queue.find(({ isPending }) => isPending);
    if (pending) this.remove(pending);
    return pending;
  }

  /** A join: the session is new, and nobody is told about the queue. */
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
