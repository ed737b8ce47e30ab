import { notFound } from '../kernel/errors';
import type { Connection } from './connection';
import type {
  ConnectionCheck,
  Connector,
  ConnectorEvents,
  Downlink,
  OpenConnection,
  Peer,
  SendResult,
} from './connector';
import { TombstoneCache } from './tombstoneCache';

/** Routes calls to the connector of each connection. */
export class ConnectorHub {
  /** The last applied revision of each connection. */
  private readonly revisions = new Map<string, number>();
  private readonly deletedIds = new TombstoneCache();

  /** `openConnection` decrypts the secret fields of a connection and must not throw. */
  constructor(
    private readonly connectors: readonly Connector[],
    private readonly openConnection: (connection: Connection) => OpenConnection,
  ) {}

  /** Passes the event handlers to the connectors. Call it before any peer can attach. */
  start(events: ConnectorEvents): void {
    for (const connector of this.connectors) connector.start(events);
  }

  /** Resolves when no connector sends or receives any more; then throws the first failure. */
  async stop(): Promise<void> {
    const stopped = await Promise.allSettled(this.connectors.map(async (connector) => await connector.stop()));
    const failure = stopped.find(({ status }) => status === 'rejected');
    if (failure?.status === 'rejected') throw failure.reason;
  }

  /** Returns the peer that is attached to a connection and ready for commands; undefined if there is none. */
  peer(connectionId: string): Peer | undefined {
    return this.findAttachedConnector(connectionId)?.peer(connectionId);
  }

  /** Reports that a command waits: if no peer is attached, its connector tries to connect soon, if it dials out. */
  connectSoon(connectionId: string): void {
    if (this.findAttachedConnector(connectionId)) return;
    for (const connector of this.connectors) connector.connectSoon(connectionId);
  }

  /** Sends a command to one attachment only. Its intent is already committed. */
  async send(downlink: Downlink, session: number): Promise<SendResult> {
    return (await this.findAttachedConnector(downlink.connectionId)?.send(downlink, session)) ?? 'not_sent';
  }

  /**
   * Cancels a command that was sent and has not left the server. True: no byte of it was passed to the transport, and
   * none will be; its `send` resolves to `not_sent`. False if it is in network buffers and may have left, or if it is
   * unknown.
   */
  cancelUnsent(connectionId: string, executionId: string): boolean {
    return this.connectors.some((connector) => connector.cancelUnsent(connectionId, executionId));
  }

  /** Asks the peer to cancel a command that is final here; does nothing if no peer is attached. */
  cancelAtGateway(connectionId: string, executionId: string): void {
    for (const connector of this.connectors) connector.cancelAtGateway(connectionId, executionId);
  }

  /**
   * Applies a connection that was created or changed, after the commit, or at the start of the server. Ignores older
   * revisions and deleted connections.
   */
  connectionChanged(connection: Connection): void {
    if (this.deletedIds.has(connection.id) || connection.revision < (this.revisions.get(connection.id) ?? 0)) return;
    this.revisions.set(connection.id, connection.revision);
    // Opened even if no connector supports it: a failure to open the connection is shown in its status.
    const opened = this.openConnection(connection);
    this.connectors.find(({ id }) => id === connection.connectorId)?.connectionChanged(opened);
  }

  /** Stops a connection that was deleted, after the commit. */
  connectionDeleted(connectionId: string): void {
    this.deletedIds.add(connectionId);
    this.revisions.delete(connectionId);
    for (const connector of this.connectors) connector.connectionDeleted(connectionId);
  }

  /**
   * Tests a connection, stored or not, without leaving anything behind. Ends within 20 s, sooner if the signal aborts.
   */
  async test(opened: OpenConnection, signal: AbortSignal): Promise<readonly ConnectionCheck[]> {
    const connector = this.connectors.find(({ id }) => id === opened.connection.connectorId);
    if (!connector) throw notFound('connector', opened.connection.connectorId);
    return await connector.test(opened, signal);
  }

  /** Returns the connector to which a peer of the connection is attached. */
  private findAttachedConnector(connectionId: string): Connector | undefined {
    return this.connectors.find((connector) => connector.peer(connectionId) !== undefined);
  }
}
