import type { Database } from '../database';
import type { Clock } from '../kernel/clock';
import { notFound } from '../kernel/errors';
import type { DeviceReach } from '../kernel/reach';
import { ConnectionRepository } from './connectionRepository';
import type { ConnectionStatus, ConnectionStatuses } from './connectionStatuses';

/** How one connection is doing now, or that each was told once. */
export type StatusNews = { readonly kind: 'status'; readonly connectionId: string; readonly status: ConnectionStatus } | { readonly kind: 'deleted'; readonly connectionId: string } | { readonly kind: 'complete' };

/** What watching needs of the house. */
export interface ConnectionWatchOptions {
  readonly database: Database;
  readonly statuses: ConnectionStatuses;
  readonly clock: Clock;
}

/** What one reader was told of one connection. */
interface Shown {
  readonly enabled: boolean;
  /** The status but for the time of the last message, as text to compare. */
  readonly text: string;
  readonly lastMessageAt: number | undefined;
  /** When it was told, on the clock that never jumps. */
  readonly at: number;
}

/** What one reader was told. */
interface Told {
  readonly shown: Map<string, Shown>;
  /** Connections that are none of the reader's. */
  readonly foreign: Set<string>;
}

const PAGE = 200;
// Some things change only by time: two rivals that have become quiet, the last of many messages.
const LOOK_EVERY_MS = 2000;
// A change of the last message alone is told at most so often.
const MESSAGES_EVERY_MS = 1000;

/** Shows how connections are doing as it changes; a slow reader gets the newest status of each. */
export class ConnectionWatch {
  private readonly connections: ConnectionRepository;

  constructor(private readonly options: ConnectionWatchOptions) {
    this.connections = new ConnectionRepository(options.database.db);
  }

  /** Yields each connection once, then `complete`, then changes until the signal aborts. `ids`: only these; empty: all of the organization, or all that a limited key names. Throws `connection_not_found`. */
  async *watch(organizationId: string, ids: readonly string[], signal: AbortSignal, reach?: DeviceReach): AsyncGenerator<StatusNews> {
    const changes = new Changes(ids.length > 0 ? new Set(ids) : reach?.connectionIds);
    const leave = this.options.statuses.watch((connectionId) => changes.add(connectionId));
    const wake = (): void => changes.wake();
    signal.addEventListener('abort', wake);
    const looking = setInterval(() => changes.look(), LOOK_EVERY_MS).unref();
    try {
      const told: Told = { shown: new Map(), foreign: new Set() };
      for await (const page of this.pages(organizationId, ids, reach)) {
        if (signal.aborted) return;
        yield* this.news(organizationId, page, told);
      }
      yield { kind: 'complete' };
      yield* this.follow(organizationId, changes, told, signal);
    } finally {
      clearInterval(looking);
      signal.removeEventListener('abort', wake);
      leave();
    }
  }

  private async *follow(organizationId: string, changes: Changes, told: Told, signal: AbortSignal): AsyncGenerator<StatusNews> {
    while (!signal.aborted) {
      yield* this.news(organizationId, changes.take(told.foreign), told);
      if (changes.takeLook()) for (const connectionId of this.changedByTime(told)) changes.add(connectionId);
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
      if (!this.isNews(status, shown.get(connectionId))) continue;
      shown.set(connectionId, { enabled: connection.enabled, text: textOf(status), lastMessageAt: status.lastMessageAt, at: this.options.clock.monotonic() });
      yield { kind: 'status', connectionId, status };
    }
  }

  private isNews(status: ConnectionStatus, shown: Shown | undefined): boolean {
    if (shown?.text !== textOf(status)) return true;
    return shown.lastMessageAt !== status.lastMessageAt && this.options.clock.monotonic() - shown.at >= MESSAGES_EVERY_MS;
  }

  private changedByTime({ shown }: Told): string[] {
    return [...shown].filter(([id, before]) => this.isNews(this.options.statuses.of({ id, enabled: before.enabled }), before)).map(([id]) => id);
  }

  /** The ids of the connections to begin with. */
  private async *pages(organizationId: string, ids: readonly string[], reach: DeviceReach | undefined): AsyncGenerator<readonly string[]> {
    if (ids.length === 0 && reach) {
      yield* inPages([...reach.connectionIds]); // those that are not there are passed over
      return;
    }
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

function* inPages(ids: readonly string[]): Generator<readonly string[]> {
  for (let at = 0; at < ids.length; at += PAGE) yield ids.slice(at, at + PAGE);
}

function textOf(status: ConnectionStatus): string {
  return JSON.stringify({ ...status, lastMessageAt: undefined });
}

/** The connections that have news, each once. */
class Changes {
  private readonly changed = new Set<string>();
  private woken: (() => void) | undefined;
  private isTimeToLook = false;

  /** `wanted`: of these alone; undefined: of all. */
  constructor(private readonly wanted: ReadonlySet<string> | undefined) {}

  add(connectionId: string): void {
    if (this.wanted?.has(connectionId) === false) return;
    this.changed.add(connectionId);
    this.wake();
  }

  /** Some of them, without the foreign ones. */
  take(foreign: ReadonlySet<string>): string[] {
    const taken = [...this.changed].slice(0, PAGE);
    for (const id of taken) this.changed.delete(id);
    return taken.filter((id) => !foreign.has(id));
  }

  /** It is time to look at all of them. */
  look(): void {
    this.isTimeToLook = true;
    this.wake();
  }

  /** Whether it was, since this was last asked. */
  takeLook(): boolean {
    const isTime = this.isTimeToLook;
    this.isTimeToLook = false;
    return isTime;
  }

  wake(): void {
    this.woken?.();
  }

  /** Resolves when there is news, when somebody wakes it, or when it is time to look in any case. */
  async some(): Promise<void> {
    if (this.changed.size > 0 || this.isTimeToLook) return;
    await new Promise<void>((resolve) => (this.woken = resolve));
    this.woken = undefined;
  }
}
