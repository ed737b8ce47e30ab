import type { Database } from '../database';
import type { Clock } from '../kernel/clock';
import { notFound } from '../kernel/errors';
import type { DeviceScope } from '../kernel/resourceScope';
import { ConnectionRepository } from './connectionRepository';
import type { ConnectionStatus, ConnectionStatuses } from './connectionStatuses';
import { splitIntoBatches } from '../kernel/splitIntoBatches';

/** The current status of one connection, its deletion, or a marker that each connection was sent once. */
export type StatusUpdate =
  | { readonly kind: 'status'; readonly connectionId: string; readonly status: ConnectionStatus }
  | { readonly kind: 'deleted'; readonly connectionId: string }
  | { readonly kind: 'complete' };

/** Dependencies of ConnectionWatch. */
interface ConnectionWatchOptions {
  readonly database: Database;
  readonly statuses: ConnectionStatuses;
  readonly clock: Clock;
}

/** What was last sent to one reader about one connection. */
interface SentStatus {
  readonly enabled: boolean;
  /** The status without what can change with every message, as text for comparison. */
  readonly comparableText: string;
  /** What can change with every message, as text for comparison. */
  readonly messageText: string;
  /** When it was sent, on the monotonic clock. */
  readonly sentAt: number;
}

/** What was sent to one reader. */
interface SentStatuses {
  readonly sentById: Map<string, SentStatus>;
  /** Connections that the organization of the reader does not have: changes of other organizations. */
  readonly inaccessibleIds: Set<string>;
}

const PAGE_SIZE = 200;
// Some changes depend only on time: two competing gateways that became quiet, or the last of many messages.
const CHECK_INTERVAL_MS = 2000;
// A change of only what changes with messages is sent at most at this interval.
const MESSAGE_INTERVAL_MS = 1000;

/** Streams the status of connections as it changes. A slow reader receives the latest status of each. */
export class ConnectionWatch {
  private readonly connections: ConnectionRepository;

  constructor(private readonly options: ConnectionWatchOptions) {
    this.connections = new ConnectionRepository(options.database.db);
  }

  /**
   * Yields each connection once, then `complete`, then changes until the signal aborts. `ids`: only these; empty: all
   * of the organization, or all that a restricted key names. Throws `connection_not_found`.
   */
  async *watch(
    organizationId: string,
    ids: readonly string[],
    signal: AbortSignal,
    scope?: DeviceScope,
  ): AsyncGenerator<StatusUpdate> {
    const changes = new PendingChanges(ids.length > 0 ? new Set(ids) : scope?.connectionIds);
    const unsubscribe = this.options.statuses.watch((connectionId) => changes.add(connectionId));
    const wake = (): void => changes.wake();
    signal.addEventListener('abort', wake);
    const timer = setInterval(() => changes.requestCheck(), CHECK_INTERVAL_MS).unref();
    try {
      const sentStatuses: SentStatuses = { sentById: new Map(), inaccessibleIds: new Set() };
      for await (const page of this.listInitialIds(organizationId, ids, scope)) {
        if (signal.aborted) return;
        yield* this.streamUpdates(organizationId, page, sentStatuses);
      }
      yield { kind: 'complete' };
      yield* this.streamChanges(organizationId, changes, sentStatuses, signal);
    } finally {
      clearInterval(timer);
      signal.removeEventListener('abort', wake);
      unsubscribe();
    }
  }

  /** Yields changes until the signal aborts, and checks at intervals for changes that depend only on time. */
  private async *streamChanges(
    organizationId: string,
    changes: PendingChanges,
    sentStatuses: SentStatuses,
    signal: AbortSignal,
  ): AsyncGenerator<StatusUpdate> {
    while (!signal.aborted) {
      yield* this.streamUpdates(organizationId, changes.takeChangedIds(sentStatuses.inaccessibleIds), sentStatuses);
      if (changes.takeCheckRequest())
        this.findIdsChangedByTime(sentStatuses).forEach((connectionId) => changes.add(connectionId));
      await changes.waitForChange();
    }
  }

  /**
   * Yields the changes of these connections and marks them as sent. The status is the one at the moment when the reader
   * consumes it.
   */
  private async *streamUpdates(
    organizationId: string,
    ids: readonly string[],
    { sentById, inaccessibleIds }: SentStatuses,
  ): AsyncGenerator<StatusUpdate> {
    if (ids.length === 0) return;
    const connectionById = new Map(
      (await this.connections.findMany(organizationId, ids)).map((connection) => [connection.id, connection]),
    );
    for (const connectionId of ids) {
      const connection = connectionById.get(connectionId);
      if (!connection) {
        if (sentById.delete(connectionId)) yield { kind: 'deleted', connectionId };
        else inaccessibleIds.add(connectionId);
        continue;
      }
      const status = this.options.statuses.getStatus(connection);
      if (!this.mustSend(status, sentById.get(connectionId))) continue;
      sentById.set(connectionId, {
        enabled: connection.enabled,
        comparableText: toComparableText(status),
        messageText: toMessageText(status),
        sentAt: this.options.clock.monotonic(),
      });
      yield { kind: 'status', connectionId, status };
    }
  }

  /** Returns whether the status differs from what was last sent; what changes with messages at most once a second. */
  private mustSend(status: ConnectionStatus, lastSent: SentStatus | undefined): boolean {
    if (lastSent?.comparableText !== toComparableText(status)) return true;
    return (
      lastSent.messageText !== toMessageText(status) &&
      this.options.clock.monotonic() - lastSent.sentAt >= MESSAGE_INTERVAL_MS
    );
  }

  /**
   * Returns the ids of the connections whose status has changed since it was sent, although no change was reported: it
   * also depends on the time.
   */
  private findIdsChangedByTime({ sentById }: SentStatuses): string[] {
    return [...sentById]
      .filter(([id, lastSent]) =>
        this.mustSend(this.options.statuses.getStatus({ id, enabled: lastSent.enabled }), lastSent),
      )
      .map(([id]) => id);
  }

  /**
   * Yields the ids of the initial connections in pages: `ids`, else those of the scope, else all. Throws
   * `connection_not_found` for an unknown id in `ids`.
   */
  private async *listInitialIds(
    organizationId: string,
    ids: readonly string[],
    scope: DeviceScope | undefined,
  ): AsyncGenerator<readonly string[]> {
    if (ids.length === 0 && scope) {
      yield* splitIntoBatches([...scope.connectionIds], PAGE_SIZE); // missing ones are skipped
      return;
    }
    if (ids.length > 0) {
      const foundIds = new Set((await this.connections.findMany(organizationId, ids)).map(({ id }) => id));
      const missing = ids.find((id) => !foundIds.has(id));
      if (missing !== undefined) throw notFound('connection', missing);
      yield [...foundIds];
      return;
    }
    let afterId: string | undefined = ''; // less than every id
    while (afterId !== undefined) {
      const page: string[] = (await this.connections.listAfter(organizationId, afterId, PAGE_SIZE)).map(({ id }) => id);
      yield page;
      afterId = page.length < PAGE_SIZE ? undefined : page.at(-1);
    }
  }
}

/** Returns the status as text, without what can change with every message. */
function toComparableText(status: ConnectionStatus): string {
  return JSON.stringify({ ...status, lastMessageAt: undefined, dataWarnings: undefined });
}

/** Returns what can change with every message as text: the time of the last one, and the number of data warnings. */
function toMessageText({ lastMessageAt, dataWarnings }: ConnectionStatus): string {
  return JSON.stringify([lastMessageAt, dataWarnings.map(({ code, count }) => [code, count])]);
}

/** The connections that changed, each once. */
class PendingChanges {
  private readonly changedIds = new Set<string>();
  private resolveWait: (() => void) | undefined;
  private isCheckRequested = false;

  /** `watchedIds`: only these connections; undefined: all. */
  constructor(private readonly watchedIds: ReadonlySet<string> | undefined) {}

  /** Adds a connection that changed. */
  add(connectionId: string): void {
    if (this.watchedIds?.has(connectionId) === false) return;
    this.changedIds.add(connectionId);
    this.wake();
  }

  /** Removes and returns one page of changed connections, without the inaccessible ones. */
  takeChangedIds(inaccessibleIds: ReadonlySet<string>): string[] {
    const page = [...this.changedIds].slice(0, PAGE_SIZE);
    for (const id of page) this.changedIds.delete(id);
    return page.filter((id) => !inaccessibleIds.has(id));
  }

  /** Requests a check of all connections. */
  requestCheck(): void {
    this.isCheckRequested = true;
    this.wake();
  }

  /** Returns whether a check of all connections was requested since the last call. */
  takeCheckRequest(): boolean {
    const wasRequested = this.isCheckRequested;
    this.isCheckRequested = false;
    return wasRequested;
  }

  /** Ends the current wait. */
  wake(): void {
    this.resolveWait?.();
  }

  /** Resolves when there is a change, when a check is requested, or when `wake` is called. */
  async waitForChange(): Promise<void> {
    if (this.changedIds.size > 0 || this.isCheckRequested) return;
    await new Promise<void>((resolve) => (this.resolveWait = resolve));
    this.resolveWait = undefined;
  }
}
