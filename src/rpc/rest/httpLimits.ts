import { createServer, type RequestListener, type Server } from 'node:http';
import { createSecureServer, type Http2SecureServer } from 'node:http2';
import type { ServerTls } from '../tls/serverTls';

/** What the HTTP port takes from its callers. Times in milliseconds. */
export interface HttpLimits {
  /** How long a TLS handshake may take. */
  readonly handshakeMs: number;
  /** How long the headers of a request may take, from the first byte or the opening of the connection. */
  readonly headersMs: number;
  /** How long a request may take with its body. */
  readonly requestMs: number;
  /** How often both are looked at. */
  readonly checkMs: number;
  /** How long a connection may be without a request. */
  readonly idleMs: number;
  /** How long the rest of a body is read and forgotten after the request was refused, before the connection is cut. */
  readonly lingerMs: number;
  /** How long bytes of an answer may be ready without one of them being taken. */
  readonly unreadMs: number;
  /** The greatest sum of all header names and values, in bytes. */
  readonly metadataBytes: number;
  /** How many headers a request may have. */
  readonly headerPairs: number;
  /** HTTP/2: how many calls one connection may have open. */
  readonly concurrentStreams: number;
  /** HTTP/2: how many calls a connection may open and reset at once, before it is closed. */
  readonly resetBurst: number;
  /** HTTP/2: how many of them it is given back each second. */
  readonly resetsPerSecond: number;
}

/** The limits where nothing else is said. A picture of 10 MiB passes within requestMs at 35 kB a second. */
export const DEFAULT_HTTP_LIMITS: HttpLimits = {
  handshakeMs: 10_000,
  headersMs: 15_000,
  requestMs: 300_000,
  checkMs: 5_000,
  idleMs: 72_000,
  lingerMs: 5_000,
  unreadMs: 60_000,
  metadataBytes: 16 * 1024,
  headerPairs: 100,
  concurrentStreams: 200,
  resetBurst: 400,
  resetsPerSecond: 50,
};

/** A server of node's own, of either kind. */
export type HttpServer = Server | Http2SecureServer;

const PROBE_AFTER_MS = 30_000;
const INVALID_FRAMES = 100;

/** The server of the port: with TLS HTTP/2 and HTTP/1.1, as the client wishes; without it HTTP/1.1. */
export function httpServerOf(tls: ServerTls, limits: HttpLimits, listener: RequestListener): HttpServer {
  const common = {
    noDelay: true,
    requireHostHeader: false, // node would refuse it in a shape of its own; `port.ts` does
    keepAlive: true, // of TCP: finds those that went away without a word while a stream is open
    keepAliveInitialDelay: PROBE_AFTER_MS,
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    connectionsCheckingInterval: limits.checkMs,
    keepAliveTimeout: limits.idleMs,
    maxHeaderSize: limits.metadataBytes,
  };
  const server = tls.isOn ? secureServer(tls, limits, common, listener) : createServer(common, listener);
  // Node forgets what is above its limit without a word; one more lets us see that there are too many.
  (server as Server).maxHeadersCount = limits.headerPairs + 1;
  return server;
}

function secureServer(tls: ServerTls, limits: HttpLimits, common: object, listener: RequestListener): Http2SecureServer {
  const options = {
    ...common,
    allowHTTP1: true,
    handshakeTimeout: limits.handshakeMs,
    settings: { maxConcurrentStreams: limits.concurrentStreams, maxHeaderListSize: limits.metadataBytes },
    maxHeaderListPairs: limits.headerPairs,
    maxSessionInvalidFrames: INVALID_FRAMES,
    streamResetBurst: limits.resetBurst,
    streamResetRate: limits.resetsPerSecond,
    ...tls.serverOptions,
    ...tls.context(),
  };
  return createSecureServer(options, listener as never);
}
