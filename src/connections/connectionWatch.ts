import type { Database } from '../database';
import { notFound } from '../kernel/errors';
import { ConnectionRepository } from './connectionRepository';
import type { ConnectionStatus, ConnectionStatuses } from './connectionStatuses';

/** How one connection is doing now, or that each was told once. */
export type StatusNews = { readonly kind: 'status'; readonly connectionId: string; readonly status: ConnectionStatus } | { readonly kind: 'deleted'; readonly connectionId: string } | { readonly kind: 'complete' };

/** What watching needs of the house. */
export interface ConnectionWatchOptions {
  readonly database: Database;
  readonly statuses: ConnectionStatuses;
}

/** What one reader was told. */
interface Told {
  /** The status of each connection, as text to compare. */
  readonly shown: Map<string, { readonly enabled: boolean; readonly text: string }>;
  /** Connections that are none of the reader's. */
  readonly foreign: Set<string>;
}

const PAGE = 200;
// Some things change only by time: two rivals that have become quiet, the last of many messages.
const LOOK_EVERY_MS = 2000;

/** Shows how connections are doing as it changes; a slow reader gets the newest status of each. */
export class ConnectionWatch {
  private readonly connections: ConnectionRepository;

  constructor(private readonly options: ConnectionWatchOptions) {
    this.connections = new ConnectionRepository(options.database.db);
  }

  /** Yields each connection once, then `complete`, then changes until the signal aborts. `ids`: only these; empty: all of the organization. Throws `connection_not_found`. */
  async *watch(organizationId: string, ids: readonly string[], signal: AbortSignal): AsyncGenerator<StatusNews> {
    const changes = new Changes(ids);
    const leave = this.options.statuses.watch((connectionId) => changes.add(connectionId));
    const wake = (): void => changes.wake();
    signal.addEventListener('abort', wake);
    try {
      const told: Told = { shown: new Map(), foreign: new Set() };
      for await (const page of this.pages(organizationId, ids)) {
        if (signal.aborted) return;
        yield* this.news(organizationId, page, told);
      }
      yield { kind: 'complete' };
      yield* this.follow(organizationId, changes, told, signal);
    } finally {
      signal.removeEventListener('abort', wake);
      leave();
    }
  }

  private async *follow(organizationId: string, changes: Changes, told: Told, signal: AbortSignal): AsyncGenerator<StatusNews> {
    while (!signal.aborted) {
      yield* this.news(organizationId, changes.take(told.foreign), told);
      for (const connectionId of this.changedByTime(told)) changes.add(connectionId);
      await changes.some();
    }
  }

  /** What has to be told of these connections; takes it as told. The status is that of the moment in which the reader takes it. */
  private async *news(organizationId: string, ids: readonly string[], { shown, foreign }: Told): AsyncGenerator<StatusNews> {
    if (ids.length === 0) return;
    const found = new Map((await this.connections.findMany(organizationId, ids)).map((connection) => [connection.id, connection]));
    for (const connectionId of ids) {
      const connection = found.get(connectionId);
      if (!connection) {
        if (shown.delete(connectionId)) yield { kind: 'deleted', connectionId };
        else foreign.add(connectionId);
        continue;
      }
      const status = this.options.statuses.of(connection);
      const text = JSON.stringify(status);
      if (shown.get(connectionId)?.text === text) continue;
      shown.set(connectionId, { enabled: connection.enabled, text });
      yield { kind: 'status', connectionId, status };
    }
  }

  private changedByTime({ shown }: Told): string[] {
    const { statuses } = this.options;
    return [...shown].filter(([id, { enabled, text }]) => JSON.stringify(statuses.of({ id, enabled })) !== text).map(([id]) => id);
  }

  /** The ids of the connections to begin with. */
  private async *pages(organizationId: string, ids: readonly string[]): AsyncGenerator<readonly string[]> {
    if (ids.length > 0) {
      const found = new Set((await this.connections.findMany(organizationId, ids)).map(({ id }) => id));
      const missing = ids.find((id) => !found.has(id));
      if (missing !== undefined) throw notFound('connection', missing);
      yield [...found];
    }
    let after: string | undefined = ids.length > 0 ? undefined : '';
    while (after !== undefined) {
      const page: string[] = (await this.connections.listAfter(organizationId, after, PAGE)).map(({ id }) => id);
      yield page;
      after = page.length < PAGE ? undefined : page.at(-1);
    }
  }
}

/** The connections that have news, each once. */
class Changes {
  private readonly changed = new Set<string>();
  private readonly wanted: ReadonlySet<string>;
  private woken: (() => void) | undefined;

  /** `ids`: of these alone; none: of all. */
  constructor(ids: readonly string[]) {
    this.wanted = new Set(ids);
  }

  add(connectionId: string): void {
    if (this.wanted.size > 0 && !this.wanted.has(connectionId)) return;
    this.changed.add(connectionId);
    this.wake();
  }

  /** Some of them, without the foreign ones. */
  take(foreign: ReadonlySet<string>): string[] {
    const taken = [...this.changed].slice(0, PAGE);
    for (const id of taken) this.changed.delete(id);
    return taken.filter((id) => !foreign.has(id));
  }

  wake(): void {
    this.woken?.();
  }

  /** Resolves when there is news, when somebody wakes it, or when it is time to look in any case. */
  async some(): Promise<void> {
    if (this.changed.size > 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, LOOK_EVERY_MS);
      timer.unref();
      this.woken = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.woken = undefined;
  }
}
