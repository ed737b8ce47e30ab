import type { Key, PlantroomServer } from './plantroomServer';

/** The server and connection of a gateway. */
export interface GatewayPeer {
  readonly server: PlantroomServer;
  readonly key: Key;
  readonly connectionId: string;
}

/** Handlers for acknowledgements from the server. The gateway accepts every command immediately. */
export interface GatewayHandlers {
  /** The server acknowledged a result; `applied`: it ended the execution. */
  readonly acknowledged: (executionId: string, applied: boolean) => void;
  /** The server acknowledged an uplink; `stored`: it is on the server's disk. */
  readonly uplinkAcknowledged: (uplinkId: string, stored: boolean) => void;
}

/** A gateway that is measured. */
export interface MeasuredGateway {
  /** Rejects when the stream ends without `detach`. Never resolves. */
  readonly lost: Promise<never>;
  /** Sends an uplink; resolves when the next one may be sent. */
  uplink(clientDeviceId: string, values: Readonly<Record<string, unknown>>): Promise<void>;
  detach(): Promise<void>;
}
