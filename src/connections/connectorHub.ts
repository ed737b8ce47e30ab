import { notFound } from '../kernel/errors';
import type { Connection } from './connection';
import type { ConnectionCheck, Connector, ConnectorEvents, Downlink, OpenConnection, Peer, SendResult } from './connector';
import { DeletedIds } from './deletedIds';

/** All connectors as one: where commands go out, and who is there to take them. */
export class ConnectorHub {
  /** What was last handed over of each connection. */
  private readonly revisions = new Map<string, number>();
  private readonly deleted = new DeletedIds();

  /** `open` decrypts the secret fields of a connection; it may not throw. */
  constructor(
    private readonly connectors: readonly Connector[],
    private readonly open: (connection: Connection) => OpenConnection,
  ) {}

  /** Hands the rooms above to the connectors. Call it before anybody can attach. */
  start(events: ConnectorEvents): void {
    for (const connector of this.connectors) connector.start(events);
  }

  /** Resolves when no connector brings or takes anything any more; throws the first failure then. */
  async stop(): Promise<void> {
    const stopped = await Promise.allSettled(this.connectors.map(async (connector) => await connector.stop()));
    const failure = stopped.find(({ status }) => status === 'rejected');
    if (failure?.status === 'rejected') throw failure.reason;
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

  /** A connection was created or changed and that is on disk, or the server has just started. Leaves alone what is older than what it was told before, or deleted. */
  connectionChanged(connection: Connection): void {
    if (this.deleted.has(connection.id) || connection.revision < (this.revisions.get(connection.id) ?? 0)) return;
    this.revisions.set(connection.id, connection.revision);
    const open = this.open(connection); // also where nobody takes it: its status says that
    this.connectors.find(({ id }) => id === connection.connectorId)?.connectionChanged(open);
  }

  /** A connection was deleted and that is on disk. */
  connectionDeleted(connectionId: string): void {
    this.deleted.add(connectionId);
    this.revisions.delete(connectionId);
    for (const connector of this.connectors) connector.connectionDeleted(connectionId);
  }

  /** Tries a connection out, stored or not, and leaves nothing behind. Ends within 20 s, sooner if the signal aborts. */
  async test(open: OpenConnection, signal: AbortSignal): Promise<readonly ConnectionCheck[]> {
    const connector = this.connectors.find(({ id }) => id === open.connection.connectorId);
    if (!connector) throw notFound('connector', open.connection.connectorId);
    return await connector.test(open, signal);
  }

  private holder(connectionId: string): Connector | undefined {
    return this.connectors.find((connector) => connector.peer(connectionId) !== undefined);
  }
}
