import type { Socket } from 'node:net';
import type { Client } from 'pg';

/** The prefix of the application names of a server's connections. */
export const SERVER_NAME_PREFIX = 'plantroom server ';

/** A connection of pg; these fields have no public type. */
type RawClient = Client & {
  readonly processID: number;
  readonly readyForQuery: boolean;
  readonly connection: { readonly stream: Socket };
};

/** A connection, and the result of its last check. */
interface WatchedConnection {
  readonly client: RawClient;
  /** The bytes received when it was last seen waiting for a response; undefined: it was not waiting. */
  bytesRead: number | undefined;
  /** The number of successive checks in which the connection was silent although the backend was idle. */
  idleCheckCount: number;
}

/** The backend must be idle in this many successive checks: during one of them, a response may be on its way. */
const MIN_IDLE_CHECKS = 2;

/**
 * The open connections of a pool. Finds and closes those that wait for a response that can never arrive because the
 * network dropped the connection (TCP itself needs up to 15 minutes to notice).
 */
export class PostgresConnections {
  private readonly openConnections = new Map<RawClient, WatchedConnection>();
  /**
   * The process ids of the backends of closed connections: PostgreSQL may not have noticed, and they may hold locks.
   */
  private readonly closedPids: number[] = [];

  /** Watches a connection until it is closed. */
  watch(connection: unknown): void {
    const client = connection as RawClient;
    this.openConnections.set(client, { client, bytesRead: undefined, idleCheckCount: 0 });
    client.once('end', () => {
      this.openConnections.delete(client);
      this.closedPids.push(client.processID);
    });
  }

  /** Closes all connections immediately. Call it when the database does not respond. */
  destroyAll(): void {
    for (const client of this.openConnections.keys()) destroySocket(client);
  }

  /**
   * Closes the connections whose response is lost: they wait, while their backend is idle in MIN_IDLE_CHECKS successive
   * checks. Also terminates the backends of connections that were closed before. `client`: a working connection;
   * `applicationName`: the name of the connections to close.
   */
  async closeSilentConnections(client: Client, applicationName: string): Promise<void> {
    await this.terminateClosedBackends(client, applicationName);
    const silent = [...this.openConnections.values()].filter((watched) => checkSilence(watched));
    if (silent.length === 0) return;
    const sql = "select pid from pg_stat_activity where pid = any($1) and state = 'active'";
    const { rows } = await client.query<{ pid: number }>(sql, [silent.map((watched) => watched.client.processID)]);
    const active = new Set(rows.map(({ pid }) => pid));
    for (const watched of silent) {
      watched.idleCheckCount = active.has(watched.client.processID) ? 0 : watched.idleCheckCount + 1;
      if (watched.idleCheckCount >= MIN_IDLE_CHECKS && isSilent(watched)) destroySocket(watched.client);
    }
  }

  /**
   * Terminates the backends of closed connections, which may still hold locks. Skips a process id that an open
   * connection now uses.
   */
  private async terminateClosedBackends(client: Client, applicationName: string): Promise<void> {
    const openPids = new Set([...this.openConnections.keys()].map(({ processID }) => processID));
    const pids = this.closedPids.splice(0).filter((pid) => !openPids.has(pid));
    if (pids.length === 0) return;
    const sql =
      'select pg_terminate_backend(pid) from pg_stat_activity where pid = any($1) and application_name = $2 and datname = current_database()';
    try {
      await client.query(sql, [pids, applicationName]);
    } catch (error) {
      this.closedPids.push(...pids); // the next check tries again
      throw error;
    }
  }
}

/** Closes a connection without waiting for the other side. */
export function destroySocket(client: Client): void {
  (client as RawClient).connection.stream.destroy();
}

/** Returns whether the connection is silent. If not, records the bytes received so far for the next check. */
function checkSilence(watched: WatchedConnection): boolean {
  if (isSilent(watched)) return true;
  const { client } = watched;
  watched.bytesRead = client.readyForQuery ? undefined : client.connection.stream.bytesRead;
  watched.idleCheckCount = 0;
  return false;
}

/** Whether the connection waits for a response and has received no byte since the last check. */
function isSilent({ client, bytesRead }: WatchedConnection): boolean {
  return !client.readyForQuery && bytesRead === client.connection.stream.bytesRead;
}
