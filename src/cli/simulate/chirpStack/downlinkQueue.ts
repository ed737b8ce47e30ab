import { newId } from '../../../kernel/ids';

type Command = Readonly<Record<string, unknown>>;

/** A downlink that waits at the network server. */
export interface QueueItem {
  readonly id: string;
  readonly confirmed: boolean;
  readonly fPort: number;
  /** What the device gets: bytes, or the object that the network server's codec would turn into bytes. */
  readonly payload: Uint8Array | Readonly<Record<string, unknown>>;
  /** Unix milliseconds; undefined: never. */
  readonly expiresAt: number | undefined;
}

/** The queue of one device: first in, first out, no limit, and no way to take one item back. */
export class DownlinkQueue {
  private items: QueueItem[] = [];

  /** False: an item with this id waits already. */
  add(item: QueueItem): boolean {
    if (this.items.some(({ id }) => id === item.id)) return false;
    this.items.push(item);
    return true;
  }

  /** The next item, which leaves the queue; `expired` left it without being sent. */
  take(now: number): { readonly item: QueueItem | undefined; readonly expired: readonly QueueItem[] } {
    const isLate = ({ expiresAt }: QueueItem): boolean => expiresAt !== undefined && expiresAt <= now;
    const expired = this.items.filter(isLate);
    const [item, ...rest] = this.items.filter((candidate) => !isLate(candidate));
    this.items = rest;
    return { item, expired };
  }

  /** Drops all; how many. */
  flush(): number {
    return this.items.splice(0).length;
  }
}

/** Reads what came to `command/down`. A text says why it is none; ChirpStack writes such a reason into its own log only. */
export function queueItemOf(payload: Buffer, devEui: string): QueueItem | string {
  const command = objectOf(payload);
  if (!command) return 'it is not an object of JSON';
  const { fPort, confirmed } = command;
  if (textOf(command['devEui']).toLowerCase() !== devEui) return 'its devEui is not that of the topic';
  if (typeof fPort !== 'number' || !Number.isInteger(fPort) || fPort < 1 || fPort > 255) return 'its fPort must be from 1 to 255';
  const expiresAt = textOf(command['expiresAt']);
  return { id: textOf(command['id']) || newId(), confirmed: confirmed === true, fPort, payload: payloadOf(command), expiresAt: expiresAt === '' ? undefined : Date.parse(expiresAt) };
}

function payloadOf({ object, data }: Command): QueueItem['payload'] {
  return typeof object === 'object' && object !== null ? (object as Command) : new Uint8Array(Buffer.from(textOf(data), 'base64'));
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function objectOf(payload: Buffer): Command | undefined {
  try {
    const value = JSON.parse(payload.toString()) as unknown;
    return typeof value === 'object' && value !== null ? (value as Command) : undefined;
  } catch {
    return undefined;
  }
}
