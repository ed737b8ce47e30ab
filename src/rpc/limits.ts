/** What one server takes from its callers. */
export interface GrpcLimits {
  /** The greatest message that is received, in bytes. */
  readonly receiveBytes: number;
  /** The greatest message that is sent, in bytes. */
  readonly sendBytes: number;
  /** The greatest sum of all header names and values of a call, in bytes. */
  readonly metadataBytes: number;
  /** How many calls one connection may have open. */
  readonly concurrentStreams: number;
  /** How often the server asks a quiet connection whether it is still there, in milliseconds. */
  readonly keepaliveMs: number;
  /** How long it waits for the answer before it closes the connection, in milliseconds. */
  readonly keepaliveTimeoutMs: number;
  /** How many calls a connection may open and reset at once, before it is closed. */
  readonly resetBurst: number;
  /** How many of them it is given back each second. */
  readonly resetsPerSecond: number;
}

/** The limits that a server has where nothing else is said. */
export const DEFAULT_LIMITS: GrpcLimits = {
  receiveBytes: 4 * 1024 * 1024,
  sendBytes: 16 * 1024 * 1024,
  metadataBytes: 16 * 1024,
  concurrentStreams: 200,
  keepaliveMs: 30_000,
  keepaliveTimeoutMs: 10_000,
  resetBurst: 400,
  resetsPerSecond: 50,
};
