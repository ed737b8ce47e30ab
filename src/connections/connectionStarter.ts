import { setImmediate } from 'node:timers/promises';
import type { Database } from '../database';
import type { Logger } from '../kernel/logger';
import { pause } from '../kernel/pause';
import type { Connection } from './connection';
import type { ConnectionOpener } from './connectionOpener';
import { ConnectionRepository } from './connectionRepository';
import type { ConnectorHub } from './connectorHub';

/** What starting connections needs of the house. */
export interface ConnectionStarterOptions {
  readonly database: Database;
  readonly hub: ConnectorHub;
  readonly log: Logger;
  readonly opener: Pick<ConnectionOpener, 'takeUnopened'>;
  /** How often those are tried again that cannot be opened, milliseconds; 30 s unless given. */
  readonly reopenMs?: number;
  /** After a failure of the database, milliseconds. */
  readonly retryMs?: number;
}

const PAGE = 100;

/** Hands all connections that are switched on to their connectors when the server starts, and later again those that could not be opened; nobody waits for it. */
export class ConnectionStarter {
  private readonly stopping = new AbortController();
  private readonly connections: ConnectionRepository;
  private running: Promise<void> = Promise.resolve();
  private reopening: Promise<void> = Promise.resolve();

  constructor(private readonly options: ConnectionStarterOptions) {
    this.connections = new ConnectionRepository(options.database.db);
  }

  /** Returns at once. */
  start(): void {
    this.running = this.handAll();
    this.reopening = this.reopen();
  }

  /** Resolves when no more are handed over. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await Promise.all([this.running, this.reopening]);
  }

  /** Resolves when all are handed over, or it was stopped. */
  async done(): Promise<void> {
    await this.running;
  }

  private async reopen(): Promise<void> {
    const { opener, reopenMs = 30_000 } = this.options;
    while (!this.stopping.signal.aborted) {
      await pause(reopenMs, this.stopping.signal);
      if (!this.stopping.signal.aborted) for (const connection of opener.takeUnopened()) this.hand(connection);
    }
  }

  private async handAll(): Promise<void> {
    let after: string | undefined = '';
    while (after !== undefined && !this.stopping.signal.aborted) after = await this.handPage(after);
  }

  /** Answers where the next page begins; undefined: there is none. */
  private async handPage(after: string): Promise<string | undefined> {
    const { log, retryMs = 1000 } = this.options;
    let page: readonly Connection[];
    try {
      page = await this.connections.listEnabled(after, PAGE);
    } catch (error) {
      if (this.stopping.signal.aborted) return undefined;
      log.error({ err: error, retry_ms: retryMs }, 'connections.start_failed');
      await pause(retryMs, this.stopping.signal);
      return after;
    }
    for (const connection of page) {
      if (this.stopping.signal.aborted) return undefined;
      this.hand(connection);
      await setImmediate(); // calls come first
    }
    return page.length < PAGE ? undefined : page.at(-1)?.id;
  }

  private hand(connection: Connection): void {
    try {
      this.options.hub.connectionChanged(connection);
    } catch (error) {
      this.options.log.error({ err: error, organization_id: connection.organizationId, connection_id: connection.id }, 'connection.not_started');
    }
  }
}
