import type { Source } from '../keys/connectorKeyRepository';

/**
 * Which physical devices that are bound to none were seen last, of each connection, since the server started. Whoever sends
 * can invent such devices without end, so only so many of a connection are kept.
 */
export class UnboundSources {
  // The one seen least recently is the first of its connection.
  private readonly seen = new Map<string, Set<string>>();

  /** Keeps `most` of each connection. */
  constructor(private readonly most: number) {}

  /** One was seen. Returns the one that is too many now, which is not kept any more: that seen least recently. */
  add({ connectionId, clientDeviceId }: Source): Source | undefined {
    const kept = this.seen.get(connectionId) ?? new Set<string>();
    this.seen.set(connectionId, kept);
    kept.delete(clientDeviceId);
    kept.add(clientDeviceId);
    const [oldest] = kept;
    if (kept.size <= this.most || oldest === undefined) return undefined;
    kept.delete(oldest);
    return { connectionId, clientDeviceId: oldest };
  }

  /** It is bound by now. */
  remove({ connectionId, clientDeviceId }: Source): void {
    this.seen.get(connectionId)?.delete(clientDeviceId);
  }

  /** The connection was deleted. */
  forget(connectionId: string): void {
    this.seen.delete(connectionId);
  }
}
