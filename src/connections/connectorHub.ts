import type { Connection } from './connection';
import type { Connector, ConnectorEvents, Downlink, OpenConnection, Peer, SendResult } from './connector';

/** All connectors as one: where commands go out, and who is there to take them. */
export class ConnectorHub {
  /** `open` decrypts the secret fields of a connection. */
  constructor(
    private readonly connectors: readonly Connector[],
    private readonly open: (connection: Connection) => OpenConnection,
  ) {}

  /** Hands the rooms above to the connectors. Call it before anybody can attach. */
  start(events: ConnectorEvents): void {
    for (const connector of this.connectors) connector.start(events);
  }

  /** Resolves when no connector brings or takes anything any more. */
  async stop(): Promise<void> {
    await Promise.all(this.connectors.map(async (connector) => await connector.stop()));
  }

  /** Who is attached to a connection and ready for commands; undefined: nobody. */
  peer(connectionId: string): Peer | undefined {
    return this.holder(connectionId)?.peer(connectionId);
  }

  /** Sends a command to one attachment and to no other. Its intent is on disk before. */
  async send(downlink: Downlink, session: number): Promise<SendResult> {
    return (await this.holder(downlink.connectionId)?.send(downlink, session)) ?? 'not_sent';
  }

  /**
   * Takes a command back that was sent and has not left yet. True: not one byte of it was handed to the transport, and none will be; its
   * `send` resolves to `not_sent`. What the buffers of the network took may have left: false, as for a command that nobody holds.
   */
  takeBack(connectionId: string, executionId: string): boolean {
    return this.connectors.some((connector) => connector.takeBack(connectionId, executionId));
  }

  /** Tells the other side to drop a command that ended here; does nothing while nobody is attached. */
  withdraw(connectionId: string, executionId: string): void {
    for (const connector of this.connectors) connector.withdraw(connectionId, executionId);
  }

  /** A connection was created or changed and that is on disk, or the server has just started. */
  connectionChanged(connection: Connection): void {
    this.connectors.find(({ id }) => id === connection.connectorId)?.connectionChanged(this.open(connection));
  }

  /** A connection was deleted and that is on disk. */
  connectionDeleted(connectionId: string): void {
    for (const connector of this.connectors) connector.connectionDeleted(connectionId);
  }

  private holder(connectionId: string): Connector | undefined {
    return this.connectors.find((connector) => connector.peer(connectionId) !== undefined);
  }
}
