import type { Clock } from '../kernel/clock';
import type { Connection } from './connection';

/** How a connection is doing. */
export type ConnectionState = 'disabled' | 'connecting' | 'connected' | 'degraded' | 'disconnected' | 'error';

/** What is known of a connection now. Times are Unix milliseconds; undefined: not since the server started. */
export interface ConnectionStatus {
  readonly state: ConnectionState;
  readonly since: number | undefined;
  /** Empty when there was none. */
  readonly lastError: string;
  readonly lastMessageAt: number | undefined;
  /** `contested`: two gateways keep replacing each other. */
  readonly warnings: readonly string[];
}

interface Live {
  attached: boolean;
  since: number;
  lastError: string;
  lastMessageAt: number | undefined;
  /** Until when two gateways count as rivals, and since when. */
  contested: { readonly since: number; readonly until: number } | undefined;
}

const QUIET = 5 * 60_000;

/** What connectors saw of their connections since the server started; kept in memory. */
export class ConnectionStatuses {
  private readonly live = new Map<string, Live>();

  constructor(private readonly clock: Clock) {}

  /** The status of a connection. */
  of(connection: Pick<Connection, 'id' | 'enabled'>): ConnectionStatus {
    const live = this.live.get(connection.id);
    const idle = connection.enabled ? 'disconnected' : 'disabled';
    if (!live) return { state: idle, since: undefined, lastError: '', lastMessageAt: undefined, warnings: [] };
    const { lastError, lastMessageAt } = live;
    const isContested = live.contested !== undefined && this.clock.now() < live.contested.until;
    const status = { lastError, lastMessageAt, warnings: isContested ? ['contested'] : [] };
    if (!connection.enabled || !live.attached) return { ...status, state: idle, since: live.since };
    return isContested ? { ...status, state: 'degraded', since: later(live.since, live.contested?.since) } : { ...status, state: 'connected', since: later(live.since, live.contested?.until) };
  }

  /** The other side is there. */
  attached(connectionId: string): void {
    const known = this.live.get(connectionId);
    const now = this.clock.now();
    this.live.set(connectionId, { lastError: '', contested: undefined, ...known, attached: true, since: now, lastMessageAt: now });
  }

  /** The other side is away; `error` says why, empty: it left in peace. */
  detached(connectionId: string, error: string): void {
    const known = this.live.get(connectionId);
    if (known) Object.assign(known, { attached: false, since: this.clock.now(), lastError: error || known.lastError });
  }

  /** Somebody switched the connection on or off. */
  switched(connectionId: string): void {
    const known = this.live.get(connectionId);
    this.live.set(connectionId, { attached: false, lastError: '', lastMessageAt: undefined, contested: undefined, ...known, since: this.clock.now() });
  }

  /** A message came in. */
  messageReceived(connectionId: string): void {
    const known = this.live.get(connectionId);
    if (known) known.lastMessageAt = this.clock.now();
  }

  /** A gateway that was replaced wants the connection back from another; that is over after 5 quiet minutes. Answers whether it is new. */
  contested(connectionId: string): boolean {
    const known = this.live.get(connectionId);
    if (!known) return false;
    const now = this.clock.now();
    const goesOn = known.contested !== undefined && now < known.contested.until;
    known.contested = { since: goesOn ? (known.contested?.since ?? now) : now, until: now + QUIET };
    return !goesOn;
  }

  /** The connection is deleted. */
  forget(connectionId: string): void {
    this.live.delete(connectionId);
  }
}

function later(one: number, other: number | undefined): number {
  return Math.max(one, other ?? one);
}
