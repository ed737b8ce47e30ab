import { newId } from '../../../kernel/ids';
import type { JsonObject, JsonValue } from '../../../kernel/jsonValue';

/** A downlink in the queue of the network server. */
export interface QueueItem {
  readonly id: string;
  readonly confirmed: boolean;
  readonly fPort: number;
  /** The payload for the device: bytes, or the object that the codec of the network server would encode. */
  readonly payload: Uint8Array | JsonObject;
  /** Unix milliseconds; undefined: never. */
  readonly expiresAt: number | undefined;
}

/** The queue of one device: first in, first out, without a limit and without removal of single items. */
export class DownlinkQueue {
  private items: QueueItem[] = [];

  /** Adds an item. Returns false if an item with this id is already queued. */
  add(item: QueueItem): boolean {
    if (this.items.some(({ id }) => id === item.id)) return false;
    this.items.push(item);
    return true;
  }

  /** Removes and returns the next item. `expired`: the items that were removed without being sent. */
  takeNext(now: number): { readonly item: QueueItem | undefined; readonly expired: readonly QueueItem[] } {
    const isExpired = ({ expiresAt }: QueueItem): boolean => expiresAt !== undefined && expiresAt <= now;
    const expired = this.items.filter(isExpired);
    const [item, ...rest] = this.items.filter((candidate) => !isExpired(candidate));
    this.items = rest;
    return { item, expired };
  }

  /** Removes all items. Returns their number. */
  flush(): number {
    return this.items.splice(0).length;
  }
}

/**
 * Parses a message on `command/down`, which asks ChirpStack to send a downlink to a device. Returns the reason as a
 * text if the message is invalid; ChirpStack only writes such a reason to its own log.
 */
export function parseQueueItem(messageBytes: Buffer, devEui: string): QueueItem | string {
  const message = parseObject(messageBytes);
  if (!message) return 'the command is not a JSON object';
  const { fPort, confirmed } = message;
  if (getText(message['devEui']).toLowerCase() !== devEui) return 'devEui differs from the topic';
  if (typeof fPort !== 'number' || !Number.isInteger(fPort) || fPort < 1 || fPort > 255)
    return 'fPort must be from 1 to 255';
  const expiresAt = getText(message['expiresAt']);
  return {
    id: getText(message['id']) || newId(),
    confirmed: confirmed === true,
    fPort,
    payload: getPayload(message),
    expiresAt: expiresAt === '' ? undefined : Date.parse(expiresAt),
  };
}

/**
 * Returns the payload that a message contains: its field `object`, which the codec of the network server would encode,
 * or else the bytes in its field `data` (base64). As in ChirpStack, `object` takes precedence.
 */
function getPayload({ object, data }: JsonObject): QueueItem['payload'] {
  return typeof object === 'object' && object !== null
    ? (object as JsonObject)
    : new Uint8Array(Buffer.from(getText(data), 'base64'));
}

/** Returns a field value that is a string; empty for any other value. */
function getText(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : '';
}

/** Parses JSON; undefined if it is invalid or a scalar. (An array has none of the required fields.) */
function parseObject(messageBytes: Buffer): JsonObject | undefined {
  try {
    const value = JSON.parse(messageBytes.toString()) as JsonValue;
    return typeof value === 'object' && value !== null ? (value as JsonObject) : undefined;
  } catch {
    return undefined;
  }
}
