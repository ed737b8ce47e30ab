import { createServer, type RequestListener, type Server } from 'node:http';
import { createSecureServer, type Http2SecureServer } from 'node:http2';
import { StreamScheduler } from '../streamScheduler';
import type { ServerTls } from '../tls/serverTls';

/** Limits of the HTTP server for its clients. Times in milliseconds. */
export interface HttpLimits {
  /** The maximum duration of a TLS handshake. */
  readonly handshakeMs: number;
  /** The maximum time for the headers of a request, from its first byte or the opening of the connection. */
  readonly headersMs: number;
  /** The maximum time for a request with its body. */
  readonly requestMs: number;
  /** The interval at which both are checked. */
  readonly checkMs: number;
  /** The maximum time of a connection without a request. */
  readonly idleMs: number;
  /** How long the rest of a body is read and discarded after a rejected request, before the connection is closed. */
  readonly lingerMs: number;
  /** How long bytes of a response may wait without the client reading any of them. */
  readonly unreadMs: number;
  /** The maximum total size of all header names and values, in bytes. */
  readonly maxMetadataBytes: number;
  /** The maximum number of headers of a request. */
  readonly headerPairs: number;
  /** HTTP/2: the maximum number of concurrent calls of a connection. */
  readonly maxConcurrentStreams: number;
  /** HTTP/2: the number of calls that a connection may open and reset in a burst before it is closed. */
  readonly rstStreamBurst: number;
  /** HTTP/2: the number by which that burst recovers each second. */
  readonly rstStreamsPerSecond: number;
}

/** The default limits. An image of 10 MiB arrives within requestMs at 35 kB/s. */
export const DEFAULT_HTTP_LIMITS: HttpLimits = {
  handshakeMs: 10_000,
  headersMs: 15_000,
  requestMs: 300_000,
  checkMs: 5_000,
  idleMs: 72_000,
  lingerMs: 5_000,
  unreadMs: 60_000,
  maxMetadataBytes: 16 * 1024,
  headerPairs: 100,
  maxConcurrentStreams: 200,
  rstStreamBurst: 200,
  rstStreamsPerSecond: 50,
};

/** A Node.js server for HTTP/1.1 or HTTP/2. */
export type HttpServer = Server | Http2SecureServer;

const KEEPALIVE_PROBE_DELAY_MS = 30_000;
const MAX_INVALID_FRAMES = 100;

/** Creates the server: HTTP/2 or HTTP/1.1 with TLS, as the client chooses; HTTP/1.1 without TLS. */
export function createLimitedHttpServer(tls: ServerTls, limits: HttpLimits, listener: RequestListener): HttpServer {
  const common = {
    noDelay: true,
    requireHostHeader: false, // Node.js would reject it in another format; `httpServer.ts` checks it
    keepAlive: true, // TCP keepalive: detects clients that vanished while a stream is open
    keepAliveInitialDelay: KEEPALIVE_PROBE_DELAY_MS,
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    connectionsCheckingInterval: limits.checkMs,
    keepAliveTimeout: limits.idleMs,
    maxHeaderSize: limits.maxMetadataBytes,
  };
  const server = tls.isOn ? createTlsServer(tls, limits, common, listener) : createServer(common, listener);
  // Node.js silently discards headers above its limit. One more than ours shows that there are too many.
  (server as Server).maxHeadersCount = limits.headerPairs + 1;
  return server;
}

/** Creates a server with TLS. `common`: the options that HTTP/1.1 and HTTP/2 servers share. */
function createTlsServer(
  tls: ServerTls,
  limits: HttpLimits,
  common: object,
  listener: RequestListener,
): Http2SecureServer {
  const options = {
    ...common,
    allowHTTP1: true,
    handshakeTimeout: limits.handshakeMs,
    settings: { maxConcurrentStreams: limits.maxConcurrentStreams, maxHeaderListSize: limits.maxMetadataBytes },
    maxHeaderListPairs: limits.headerPairs,
    // Otherwise a value with blanks around it is silently discarded, unlike over HTTP/1.1, where the blanks are
    // removed.
    strictFieldWhitespaceValidation: false,
    maxSessionInvalidFrames: MAX_INVALID_FRAMES,
    streamResetBurst: limits.rstStreamBurst,
    streamResetRate: limits.rstStreamsPerSecond,
    ...tls.serverOptions,
    ...tls.getContext(),
  };
  const server = createSecureServer(options, listener as never);
  new StreamScheduler().watch(server);
  return server;
}
