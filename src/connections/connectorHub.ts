import type { Connection } from './connection';
import type { ConnectorEvents, Downlink, Peer, SendResult } from './connector';
import type { GatewayConnector } from './connectors/gateway/gatewayConnector';

/** All connectors as one: where commands go out, and who is there to take them. */
export class ConnectorHub {
  constructor(private readonly gateway: GatewayConnector) {}

  /** Hands the rooms above to the connectors. Call it before anybody can attach. */
  start(events: ConnectorEvents): void {
    this.gateway.start(events);
  }

  /** Who is attached to a connection and ready for commands; undefined: nobody. */
  peer(connectionId: string): Peer | undefined {
    return this.gateway.peer(connectionId);
  }

  /** Sends a command to one attachment and to no other. Its intent is on disk before. */
  async send(downlink: Downlink, session: number): Promise<SendResult> {
    return await this.gateway.send(downlink, session);
  }

  /**
   * Takes a command back that was sent and has not left yet. True: not one byte of it was handed to the transport, and none will be; its
   * `send` resolves to `not_sent`. What the buffers of the network took may have left: false, as for a command that nobody holds.
   */
  takeBack(connectionId: string, executionId: string): boolean {
    return this.gateway.takeBack(connectionId, executionId);
  }

  /** Tells the other side to drop a command that ended here; does nothing while nobody is attached. */
  withdraw(connectionId: string, executionId: string): void {
    this.gateway.withdraw(connectionId, executionId);
  }

  /** A connection was changed and the change is on disk. */
  connectionChanged(connection: Connection): void {
    this.gateway.connectionChanged(connection);
  }

  /** A connection was deleted and that is on disk. */
  connectionDeleted(connectionId: string): void {
    this.gateway.connectionDeleted(connectionId);
  }
}
