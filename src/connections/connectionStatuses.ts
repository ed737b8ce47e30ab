import type { Clock } from '../kernel/clock';
import type { Connection } from './connection';
import { DeletedIds } from './deletedIds';

/** How a connection is doing. */
export type ConnectionState = 'disabled' | 'connecting' | 'connected' | 'degraded' | 'disconnected' | 'error';

/** What is known of a connection now. Times are Unix milliseconds; undefined: not since the server started. */
export interface ConnectionStatus {
  readonly state: ConnectionState;
  readonly since: number | undefined;
  /** Why it is not connected, in a sentence that holds no secret; empty while it is connected or switched off, or when nothing went wrong. */
  readonly lastError: string;
  readonly lastMessageAt: number | undefined;
  /** `contested`: two gateways keep replacing each other. Else codes of the connector. Empty while it is switched off. */
  readonly warnings: readonly string[];
  /** What the attached gateway software says that it is; empty while none is attached and where it does not say. */
  readonly software: string;
}

interface Live {
  link: 'connecting' | 'attached' | 'away' | 'failed';
  since: number;
  lastError: string;
  lastMessageAt: number | undefined;
  software: string;
  /** Until when two gateways count as rivals, and since when. */
  contested: { readonly since: number; readonly until: number } | undefined;
  /** The codes of the connector, and since when there are any, or none. */
  warnings: readonly string[];
  warnedAt: number;
  /** When the listeners were last called. */
  toldAt: number;
}

const QUIET = 5 * 60_000;
const A_SECOND = 1000;
const UNKNOWN = { since: undefined, lastError: '', lastMessageAt: undefined, warnings: [], software: '' } as const;

/**
 * What connectors saw of their connections since the server started; kept in memory. Errors and warnings are shown to people: never a
 * secret in them. What comes of a connection that was deleted, or was never connecting, attached or failed, is left alone.
 */
export class ConnectionStatuses {
  private readonly live = new Map<string, Live>();
  private readonly deleted = new DeletedIds();
  private readonly listeners = new Set<(connectionId: string) => void>();

  constructor(private readonly clock: Clock) {}

  /** The status of a connection. */
  of(connection: Pick<Connection, 'id' | 'enabled'>): ConnectionStatus {
    const live = this.live.get(connection.id);
    if (!connection.enabled) return { ...UNKNOWN, state: 'disabled', since: live?.since, lastMessageAt: live?.lastMessageAt };
    if (!live) return { ...UNKNOWN, state: 'disconnected' };
    const { link, since, lastError, lastMessageAt, software } = live;
    const isContested = live.contested !== undefined && this.clock.now() < live.contested.until;
    const warnings = [...(isContested ? ['contested'] : []), ...live.warnings];
    const status = { lastError, lastMessageAt, warnings, software };
    if (link === 'connecting') return { ...status, state: 'connecting', since };
    if (link === 'away') return { ...status, state: 'disconnected', since };
    if (link === 'failed') return { ...status, state: 'error', since };
    return attachedStatus(live, isContested, status);
  }

  /** The first contact is being made since the server started, the connection was switched on or its settings changed; not for each attempt after that. */
  connecting(connectionId: string): void {
    this.become(connectionId, 'connecting', '');
  }

  /** The other side is there; `software`: name and version of a gateway's, as it says, on one line. */
  attached(connectionId: string, software = ''): void {
    const known = this.known(connectionId);
    if (!known) return;
    Object.assign(known, { link: 'attached', since: this.clock.now(), lastError: '', software });
    this.changed(connectionId);
  }

  /** The other side is away and expected back; `error` says why, empty: it left in peace, which does not mend what failed before. */
  detached(connectionId: string, error: string): void {
    const known = this.live.get(connectionId);
    if (known && !(known.link === 'failed' && error === '')) this.become(connectionId, 'away', error);
  }

  /** The other side came and could not be taken; it is expected back. `error` says why. Known also of a connection that was never attached. */
  refused(connectionId: string, error: string): void {
    this.become(connectionId, 'away', error);
  }

  /** It cannot work until somebody changes something; `error` says what. */
  failed(connectionId: string, error: string): void {
    this.become(connectionId, 'failed', error);
  }

  /** What a person should look at, as snake_case codes: replaces what the connector said before, [] clears it. */
  warn(connectionId: string, warnings: readonly string[]): void {
    const known = this.live.get(connectionId);
    if (!known || known.warnings.join() === warnings.join()) return;
    if ((known.warnings.length === 0) !== (warnings.length === 0)) known.warnedAt = this.clock.now();
    known.warnings = [...warnings];
    this.changed(connectionId);
  }

  /** Somebody switched the connection on or off. */
  switched(connectionId: string): void {
    const known = this.known(connectionId);
    if (!known) return;
    known.since = this.clock.now();
    known.lastError = '';
    this.changed(connectionId);
  }

  /** A message came in, from devices or of the other side's own. */
  messageReceived(connectionId: string): void {
    const known = this.live.get(connectionId);
    if (!known) return;
    const now = this.clock.now();
    known.lastMessageAt = now;
    if (now - known.toldAt >= A_SECOND) this.changed(connectionId);
  }

  /** A gateway that was replaced wants the connection back from another; that is over after 5 quiet minutes. Answers whether it is new. */
  contested(connectionId: string): boolean {
    const known = this.live.get(connectionId);
    if (!known) return false;
    const now = this.clock.now();
    const goesOn = known.contested !== undefined && now < known.contested.until;
    known.contested = { since: goesOn ? (known.contested?.since ?? now) : now, until: now + QUIET };
    this.changed(connectionId);
    return !goesOn;
  }

  /** The connection is deleted. */
  forget(connectionId: string): void {
    this.live.delete(connectionId);
    this.deleted.add(connectionId);
    this.changed(connectionId);
  }

  /** Something changed that the status of the connection, or whether there is one, depends on. */
  changed(connectionId: string): void {
    const known = this.live.get(connectionId);
    if (known) known.toldAt = this.clock.now();
    for (const listener of this.listeners) listener(connectionId);
  }

  /** Calls `listener`, which may not throw, at each change, of messages at most once a second for each connection; answers how to end that. */
  watch(listener: (connectionId: string) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** A repeated failure keeps the time of the first. */
  private become(connectionId: string, link: Live['link'], error: string): void {
    const known = this.known(connectionId);
    if (!known) return;
    if (known.link !== link || link === 'connecting') known.since = this.clock.now();
    known.link = link;
    known.software = '';
    known.lastError = error || (link === 'connecting' ? '' : known.lastError);
    this.changed(connectionId);
  }

  /** What is known of it, from now on; undefined: it was deleted. */
  private known(connectionId: string): Live | undefined {
    const known = this.live.get(connectionId);
    if (known || this.deleted.has(connectionId)) return known;
    const now = this.clock.now();
    const live: Live = { link: 'away', since: now, lastError: '', lastMessageAt: undefined, software: '', contested: undefined, warnings: [], warnedAt: now, toldAt: now };
    this.live.set(connectionId, live);
    return live;
  }
}

function attachedStatus(live: Live, isContested: boolean, status: Omit<ConnectionStatus, 'state' | 'since'>): ConnectionStatus {
  const { since, contested, warnings, warnedAt } = live;
  if (!isContested && warnings.length === 0) return { ...status, state: 'connected', since: Math.max(since, contested?.until ?? since, warnedAt) };
  const causes = [...(isContested && contested ? [contested.since] : []), ...(warnings.length > 0 ? [warnedAt] : [])];
  return { ...status, state: 'degraded', since: Math.max(since, Math.min(...causes)) };
}
