import type { Clock } from '../kernel/clock';
import { Counter } from '../kernel/counter';
import { DAY_MS } from '../kernel/timeUnits';
import type { Connection } from './connection';
import { CONNECTORS } from './connectors';
import {
  DATA_WARNING_CODES,
  makePrintable,
  type DataWarning,
  type DataWarningCause,
  type DataWarningCode,
} from './dataWarning';
import { TombstoneCache } from './tombstoneCache';

/** The state of a connection. */
export type ConnectionState = 'disabled' | 'connecting' | 'connected' | 'degraded' | 'disconnected' | 'error';

/** The status of a connection. Times are Unix milliseconds; undefined: not since the server started. */
export interface ConnectionStatus {
  readonly state: ConnectionState;
  readonly since: number | undefined;
  /** Why it is not connected, without secrets; empty while it is connected or disabled, or if there was no error. */
  readonly lastError: string;
  readonly lastMessageAt: number | undefined;
  /**
   * `contested`: two gateways, or two clients with the same client id, keep replacing each other. Then the codes of the
   * connector and those of `dataWarnings`. Empty while it is disabled.
   */
  readonly warnings: readonly string[];
  /**
   * Received data that could not be read or stored, by code, unless it was longer ago than DATA_WARNING_QUIET_MS. Empty
   * while it is disabled.
   */
  readonly dataWarnings: readonly DataWarning[];
  /** The name and version that the attached gateway software reports; empty if none is attached or it reports none. */
  readonly software: string;
}

/** The mutable status of a connection. Times are Unix milliseconds. */
interface LiveStatus {
  /** `away`: not connected; `failed`: a user must change something. */
  link: 'connecting' | 'attached' | 'away' | 'failed';
  since: number;
  lastError: string;
  lastMessageAt: number | undefined;
  software: string;
  /** The period in which two gateways or two clients with the same client id count as competing. */
  contested: { readonly since: number; readonly until: number } | undefined;
  /** The warning codes of the connector. */
  warnings: readonly string[];
  /** Those since the connection was last changed, also those that have ended. */
  readonly dataWarnings: Map<DataWarningCode, DataWarning>;
  /** When the first warning appeared or the last one disappeared. */
  warnedAt: number;
  /** When the listeners were last called. */
  notifiedAt: number;
}

/** A conflict between two peers ends when neither replaced the other for this time. */
const CONFLICT_QUIET_MS = 5 * 60_000;
/** A data warning ends when it had no cause for this time. If it returns, its count continues. */
const DATA_WARNING_QUIET_MS = DAY_MS;
/** The minimum interval between two notifications about messages. */
const MESSAGE_NOTIFY_INTERVAL_MS = 1000;
/** The fields of a status about which nothing is known. */
const UNKNOWN_STATUS = {
  since: undefined,
  lastError: '',
  lastMessageAt: undefined,
  warnings: [],
  dataWarnings: [],
  software: '',
} as const;

/**
 * The status of connections since the server started, in memory. Errors and warnings are shown to users, so they must
 * not contain secrets. Updates for deleted connections, and for those that were never connecting, attached or failed,
 * are ignored.
 */
export class ConnectionStatuses {
  private readonly liveStatuses = new Map<string, LiveStatus>();
  private readonly deleted = new TombstoneCache();
  private readonly listeners = new Set<(connectionId: string) => void>();
  /** The number of causes of data warnings by connector type and code (`mqtt uplinks_rejected`), of all connections. */
  readonly dataWarningCounts = new Counter(
    CONNECTORS.flatMap(({ id }) => DATA_WARNING_CODES.map((code) => `${id} ${code}`)),
  );

  constructor(private readonly clock: Clock) {}

  /** Returns the status of a connection. */
  getStatus(connection: Pick<Connection, 'id' | 'enabled'>): ConnectionStatus {
    const live = this.liveStatuses.get(connection.id);
    if (!connection.enabled)
      return { ...UNKNOWN_STATUS, state: 'disabled', since: live?.since, lastMessageAt: live?.lastMessageAt };
    if (!live) return { ...UNKNOWN_STATUS, state: 'disconnected' };
    const { link, since, lastError, lastMessageAt, software } = live;
    const isContested = live.contested !== undefined && this.clock.now() < live.contested.until;
    const dataWarnings = this.listDataWarnings(live);
    const warnings = [...(isContested ? ['contested'] : []), ...live.warnings, ...dataWarnings.map(({ code }) => code)];
    const status = { lastError, lastMessageAt, warnings, dataWarnings, software };
    if (link === 'connecting') return { ...status, state: 'connecting', since };
    if (link === 'away') return { ...status, state: 'disconnected', since };
    if (link === 'failed') return { ...status, state: 'error', since };
    return toAttachedStatus(live, isContested, status);
  }

  /**
   * Reports the first connection attempt since the server started, the connection was enabled or its settings changed;
   * not called for later attempts.
   */
  markConnecting(connectionId: string): void {
    this.setLink(connectionId, 'connecting', '');
  }

  /** Reports that the peer is attached; `software`: name and version that a gateway reports, on one line. */
  markAttached(connectionId: string, software = ''): void {
    const live = this.getOrCreate(connectionId);
    if (!live) return;
    Object.assign(live, { link: 'attached', since: this.clock.now(), lastError: '', software });
    this.notifyChanged(connectionId);
  }

  /**
   * Reports that the peer detached and is expected back. `error` is the reason; empty after an orderly close, which
   * does not clear an earlier error.
   */
  markDetached(connectionId: string, error: string): void {
    const live = this.liveStatuses.get(connectionId);
    if (!live) return;
    const isOrderlyClose = error === '';
    if (live.link === 'failed' && isOrderlyClose) return; // the user still has to fix the cause
    this.setLink(connectionId, 'away', error);
  }

  /**
   * Reports that the peer was rejected and is expected back. `error` is the reason. Also recorded for a connection that
   * was never attached.
   */
  markRejected(connectionId: string, error: string): void {
    this.setLink(connectionId, 'away', error);
  }

  /** Reports that the connection cannot work until a user changes something; `error` explains what. */
  markFailed(connectionId: string, error: string): void {
    this.setLink(connectionId, 'failed', error);
  }

  /** Replaces the warnings of the connector with these snake_case codes; [] clears them. */
  setWarnings(connectionId: string, warnings: readonly string[]): void {
    const live = this.liveStatuses.get(connectionId);
    if (!live || live.warnings.join() === warnings.join()) return;
    this.changeWarnings(connectionId, live, () => (live.warnings = [...warnings]));
  }

  /**
   * Counts a received message that could not be read or stored, and shows it as the last example of the data warning.
   * Listeners are called for a new warning immediately, otherwise like for a message.
   */
  addDataWarning(
    { id, connectorId }: Pick<Connection, 'id' | 'connectorId'>,
    code: DataWarningCode,
    cause: DataWarningCause,
  ): void {
    this.dataWarningCounts.add(`${connectorId} ${code}`);
    const live = this.getOrCreate(id);
    if (!live) return;
    const { count = 0 } = live.dataWarnings.get(code) ?? {};
    const now = this.clock.now();
    const warning = { ...makePrintable(cause), code, count: count + 1, lastAt: now };
    const isNew = this.listDataWarnings(live).every((shown) => shown.code !== code);
    if (isNew) this.changeWarnings(id, live, () => live.dataWarnings.set(code, warning));
    else live.dataWarnings.set(code, warning);
    if (now - live.notifiedAt >= MESSAGE_NOTIFY_INTERVAL_MS) this.notifyChanged(id);
  }

  /** Clears the data warnings of a connection, because it was changed. */
  clearDataWarnings(connectionId: string): void {
    const live = this.liveStatuses.get(connectionId);
    if (live && live.dataWarnings.size > 0) this.changeWarnings(connectionId, live, () => live.dataWarnings.clear());
  }

  /** Reports that the connection was enabled or disabled, which restarts `since` and clears the last error. */
  markToggled(connectionId: string): void {
    const live = this.getOrCreate(connectionId);
    if (!live) return;
    live.since = this.clock.now();
    live.lastError = '';
    this.notifyChanged(connectionId);
  }

  /** Reports a received message, from a device or from the peer itself. */
  markMessageReceived(connectionId: string): void {
    const live = this.liveStatuses.get(connectionId);
    if (!live) return;
    const now = this.clock.now();
    live.lastMessageAt = now;
    if (now - live.notifiedAt >= MESSAGE_NOTIFY_INTERVAL_MS) this.notifyChanged(connectionId);
  }

  /**
   * Reports that two peers keep replacing each other: gateways of one connection, or clients with the same client id.
   * The conflict ends after 5 quiet minutes. Returns whether the conflict is new.
   */
  markConflict(connectionId: string): boolean {
    const live = this.liveStatuses.get(connectionId);
    if (!live) return false;
    const now = this.clock.now();
    const ongoing = live.contested && now < live.contested.until ? live.contested : undefined;
    live.contested = { since: ongoing?.since ?? now, until: now + CONFLICT_QUIET_MS };
    this.notifyChanged(connectionId);
    return !ongoing;
  }

  /** Removes the status of a deleted connection. */
  remove(connectionId: string): void {
    this.liveStatuses.delete(connectionId);
    this.deleted.add(connectionId);
    this.notifyChanged(connectionId);
  }

  /** Reports a change that affects the status of the connection, or whether it exists. */
  notifyChanged(connectionId: string): void {
    const live = this.liveStatuses.get(connectionId);
    if (live) live.notifiedAt = this.clock.now();
    for (const listener of this.listeners) listener(connectionId);
  }

  /**
   * Calls `listener`, which must not throw, at each change; for messages at most once a second per connection. Returns
   * a function that stops the calls.
   */
  watch(listener: (connectionId: string) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Changes the warnings, and records when the first one appears or the last one disappears. */
  private changeWarnings(connectionId: string, live: LiveStatus, change: () => void): void {
    const hadWarnings = this.hasWarnings(live);
    change();
    if (this.hasWarnings(live) !== hadWarnings) live.warnedAt = this.clock.now();
    this.notifyChanged(connectionId);
  }

  /** Whether there is a warning other than a conflict of gateways. */
  private hasWarnings(live: LiveStatus): boolean {
    return live.warnings.length > 0 || this.listDataWarnings(live).length > 0;
  }

  /** Returns the data warnings that have not ended. */
  private listDataWarnings({ dataWarnings }: LiveStatus): DataWarning[] {
    const now = this.clock.now();
    return [...dataWarnings.values()].filter(({ lastAt }) => now < lastAt + DATA_WARNING_QUIET_MS);
  }

  /** Sets the state of the link. A repeated failure retains the time of the first one. */
  private setLink(connectionId: string, link: LiveStatus['link'], error: string): void {
    const live = this.getOrCreate(connectionId);
    if (!live) return;
    const isConnecting = link === 'connecting';
    if (live.link !== link || isConnecting) live.since = this.clock.now();
    live.link = link;
    live.software = '';
    // A new attempt clears the last error; otherwise it stays until another one replaces it.
    if (error !== '' || isConnecting) live.lastError = error;
    this.notifyChanged(connectionId);
  }

  /** Returns the entry of a connection and creates it if needed; undefined if the connection was deleted. */
  private getOrCreate(connectionId: string): LiveStatus | undefined {
    const existing = this.liveStatuses.get(connectionId);
    if (existing || this.deleted.has(connectionId)) return existing;
    const now = this.clock.now();
    const live: LiveStatus = {
      link: 'away',
      since: now,
      lastError: '',
      lastMessageAt: undefined,
      software: '',
      contested: undefined,
      warnings: [],
      dataWarnings: new Map(),
      warnedAt: now,
      notifiedAt: now,
    };
    this.liveStatuses.set(connectionId, live);
    return live;
  }
}

/**
 * Returns the status of an attached peer: `degraded` while there is a conflict or a warning. `since` is the later of
 * the attachment and the start of the first of these causes; without a cause, the later of the attachment and the end
 * of the last one (a conflict ends at `contested.until`, a data warning after its quiet period).
 */
function toAttachedStatus(
  live: LiveStatus,
  isContested: boolean,
  status: Omit<ConnectionStatus, 'state' | 'since'>,
): ConnectionStatus {
  const { since, contested, warnedAt } = live;
  const hasWarnings = live.warnings.length > 0 || status.dataWarnings.length > 0;
  if (!isContested && !hasWarnings) {
    const ends = [...live.dataWarnings.values()].map(({ lastAt }) => lastAt + DATA_WARNING_QUIET_MS);
    return { ...status, state: 'connected', since: Math.max(since, contested?.until ?? since, warnedAt, ...ends) };
  }
  const causeTimes = [...(isContested && contested ? [contested.since] : []), ...(hasWarnings ? [warnedAt] : [])];
  return { ...status, state: 'degraded', since: Math.max(since, Math.min(...causeTimes)) };
}
