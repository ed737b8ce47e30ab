import { setImmediate } from 'node:timers/promises';
import type { Database } from '../database';
import type { Logger } from '../kernel/logger';
import { sleep } from '../kernel/sleep';
import type { Connection } from './connection';
import type { ConnectionFactory } from './connectionFactory';
import { ConnectionRepository } from './connectionRepository';
import type { ConnectorHub } from './connectorHub';

/** Dependencies of ConnectionBootstrapper. */
interface ConnectionBootstrapperOptions {
  readonly database: Database;
  readonly hub: ConnectorHub;
  readonly log: Logger;
  readonly factory: Pick<ConnectionFactory, 'drainUnopened'>;
  /** The retry interval for connections that cannot be opened, milliseconds; default 30 s. */
  readonly reopenIntervalMs?: number;
  /** The retry interval after a database failure, milliseconds. */
  readonly retryIntervalMs?: number;
}

const PAGE_SIZE = 100;

/**
 * Passes all enabled connections to their connectors when the server starts, and retries those that could not be
 * opened. It runs in the background.
 */
export class ConnectionBootstrapper {
  private readonly stopping = new AbortController();
  private readonly connections: ConnectionRepository;
  private initialStart: Promise<void> = Promise.resolve();
  private retries: Promise<void> = Promise.resolve();

  constructor(private readonly options: ConnectionBootstrapperOptions) {
    this.connections = new ConnectionRepository(options.database.db);
  }

  /** Returns immediately. */
  start(): void {
    this.initialStart = this.startAll();
    this.retries = this.retryUnopened();
  }

  /** Stops passing on connections; resolves when none is being passed on any more. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await Promise.all([this.initialStart, this.retries]);
  }

  /** Resolves when all enabled connections were passed on once, or `stop` was called. */
  async waitForInitialStart(): Promise<void> {
    await this.initialStart;
  }

  /** Retries the connections that could not be opened, at an interval, until `stop`. */
  private async retryUnopened(): Promise<void> {
    const { factory, reopenIntervalMs = 30_000 } = this.options;
    while (!this.stopping.signal.aborted) {
      await sleep(reopenIntervalMs, this.stopping.signal);
      if (this.stopping.signal.aborted) return;
      for (const connection of factory.drainUnopened()) this.startConnection(connection);
    }
  }

  /** Passes on all enabled connections, page by page in the order of their ids. */
  private async startAll(): Promise<void> {
    let afterId: string | undefined = ''; // less than every id
    while (afterId !== undefined && !this.stopping.signal.aborted) afterId = await this.startPage(afterId);
  }

  /**
   * Passes on one page of connections. Returns the id after which the next page starts; undefined after the last page.
   * After a database failure, it returns `afterId`, so that the same page is read again.
   */
  private async startPage(afterId: string): Promise<string | undefined> {
    const { log, retryIntervalMs = 1000 } = this.options;
    let page: readonly Connection[];
    try {
      page = await this.connections.listEnabled(afterId, PAGE_SIZE);
    } catch (error) {
      if (this.stopping.signal.aborted) return undefined;
      log.error({ err: error, retry_ms: retryIntervalMs }, 'connections.start_failed');
      await sleep(retryIntervalMs, this.stopping.signal);
      return afterId;
    }
    for (const connection of page) {
      if (this.stopping.signal.aborted) return undefined;
      this.startConnection(connection);
      await setImmediate(); // API calls have priority
    }
    return page.length < PAGE_SIZE ? undefined : page.at(-1)?.id;
  }

  /** Passes a connection to its connector; a failure is only logged. */
  private startConnection(connection: Connection): void {
    try {
      this.options.hub.connectionChanged(connection);
    } catch (error) {
      this.options.log.error(
        { err: error, organization_id: connection.organizationId, connection_id: connection.id },
        'connection.start_failed',
      );
    }
  }
}
