/** The limits of the gRPC server. */
export interface GrpcLimits {
  /** The maximum size of a received message, in bytes. */
  readonly maxReceiveMessageBytes: number;
  /** The maximum size of a sent message, in bytes. */
  readonly maxSendMessageBytes: number;
  /** The maximum total size of all header names and values of a call, in bytes. */
  readonly maxMetadataBytes: number;
  /** The maximum number of concurrent calls per connection. */
  readonly maxConcurrentStreams: number;
  /** The interval of HTTP/2 pings on an idle connection, in milliseconds. */
  readonly keepaliveMs: number;
  /** The server closes a connection that does not answer a ping within this time, in milliseconds. */
  readonly keepaliveTimeoutMs: number;
  /** The time limit for the TLS handshake and the HTTP/2 preface of a connection, in milliseconds. */
  readonly handshakeMs: number;
  /** The time limit for receiving the request of a call with one request message, in milliseconds. */
  readonly requestMs: number;
  /** The interval at which `requestMs` is checked, in milliseconds. */
  readonly checkMs: number;
  /** How long a client may continue to send after the response to its call, in milliseconds. */
  readonly lingerMs: number;
  /** How long a response may wait without the client reading any byte of it, in milliseconds. */
  readonly unreadMs: number;
  /** The number of calls that a connection may open and reset in a burst before the server closes it. */
  readonly rstStreamBurst: number;
  /** The number of resets per second by which the burst allowance is refilled. */
  readonly rstStreamsPerSecond: number;
}

/** The default limits. */
export const DEFAULT_LIMITS: GrpcLimits = {
  maxReceiveMessageBytes: 4 * 1024 * 1024,
  maxSendMessageBytes: 16 * 1024 * 1024,
  maxMetadataBytes: 16 * 1024,
  maxConcurrentStreams: 200,
  keepaliveMs: 30_000,
  keepaliveTimeoutMs: 10_000,
  handshakeMs: 10_000,
  requestMs: 300_000,
  checkMs: 5_000,
  lingerMs: 5_000,
  unreadMs: 60_000,
  rstStreamBurst: 200,
  rstStreamsPerSecond: 50,
};
