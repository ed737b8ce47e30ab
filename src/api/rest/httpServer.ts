import fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { toWire, type WireError } from '../errors/errorTable';
import type { ServerTls } from '../tls/serverTls';
import { BrowserPolicy } from './browserPolicy';
import { ConnectionErrorHandler } from './connectionErrorHandler';
import { ClientSockets } from './clientSockets';
import { DEFAULT_HTTP_LIMITS, createLimitedHttpServer, type HttpLimits } from './httpLimits';
import { closeWithError, expectationFailed, headersTooLarge, invalidHost } from './httpProtocolErrors';
import { createErrorJson, JSON_TYPE, sendError } from './errorResponse';
import { hasUnsupportedExpectation } from './expectContinue';
import { setRequestId, getRequestId } from './headers';
import { getPeer } from './peer';

/** Dependencies and settings of the HTTP server. */
interface HttpServerOptions {
  readonly tls: ServerTls;
  readonly log: Logger;
  /** Addresses and networks of trusted proxies, whose X-Forwarded-* headers are used. */
  readonly trustedProxies: readonly string[];
  /** Origins whose pages may call the server, `*` for all; default: none. */
  readonly corsOrigins?: readonly string[];
  /** Default: DEFAULT_HTTP_LIMITS. */
  readonly limits?: Partial<HttpLimits> | undefined;
}

/** An HTTP server without routes. */
interface HttpServerParts {
  readonly app: FastifyInstance;
  readonly sockets: ClientSockets;
}

const NO_QUERY = new URLSearchParams();
const MAX_PARAMETER_LENGTH = 512;

/**
 * Creates the HTTP server with the checks that apply to every request. `onError` responds to a request with an error:
 * one that fastify finds in a URL before a route is chosen, an invalid Host header, a body that is malformed or too
 * slow.
 */
export function createHttpServer(
  { tls, log, trustedProxies, corsOrigins = [], ...options }: HttpServerOptions,
  onError: (error: FastifyError | DomainError, request: FastifyRequest, reply: FastifyReply) => void,
): HttpServerParts {
  const limits = { ...DEFAULT_HTTP_LIMITS, ...options.limits };
  const browserPolicy = new BrowserPolicy(corsOrigins);
  const connectionErrors = new ConnectionErrorHandler(log, onError);
  /**
   * Prepares the response to a request whose headers have arrived. Returns false if it was a preflight request, to
   * which it has responded.
   */
  const prepareRequest = (request: FastifyRequest, reply: FastifyReply): boolean => {
    // If the rest of the request is malformed or too slow, the error is sent as the response to this request.
    connectionErrors.trackRequest(request, reply);
    setRequestId(request, reply);
    return !browserPolicy.applyHeadersOrAnswerPreflight(request, reply);
  };
  const app: FastifyInstance = fastify({
    logger: false,
    trustProxy: trustedProxies.length > 0 ? [...trustedProxies] : false,
    routerOptions: {
      maxParamLength: MAX_PARAMETER_LENGTH,
      querystringParser: (text: string) => (text === '' ? NO_QUERY : new URLSearchParams(text)) as never,
    },
    // The types of an HTTP/2 server differ only in features that are not used here.
    serverFactory: (listener) => createLimitedHttpServer(tls, limits, listener) as never,
    clientErrorHandler: (error: NodeJS.ErrnoException, socket: Socket) => connectionErrors.onError(error, socket),
    frameworkErrors: (error, request, reply) => {
      // No onRequest hook runs for these requests.
      if (prepareRequest(request, reply)) onError(error, request, reply);
    },
    forceCloseConnections: 'idle',
    return503OnClosing: false,
  });
  const sockets = new ClientSockets(app.server, limits, tls.isOn, (request) =>
    connectionErrors.rejectSlowBody(request),
  );
  app.addHook('onRequest', (request, reply, done) => {
    if (!prepareRequest(request, reply)) return;
    const headerCount = request.raw.rawHeaders.length / 2; // names and values in turn
    if (headerCount > limits.headerPairs) reject(headersTooLarge(), request, reply, log);
    else if (hasUnsupportedExpectation(request)) reject(expectationFailed(), request, reply, log);
    else if (hasValidHost(request)) done();
    else {
      reply.raw.shouldKeepAlive = false;
      onError(invalidHost(), request, reply);
    }
  });
  rejectTunnels(app.server, log);
  return { app, sockets };
}

/** Whether the request has exactly one Host header, as HTTP/1.1 requires. HTTP/2 has its own check. */
function hasValidHost({ raw }: FastifyRequest): boolean {
  if (raw.httpVersion !== '1.1') return true;
  let hostCount = 0;
  // rawHeaders contains names and values in turn. Comparing the length first is faster.
  for (let index = 0; index < raw.rawHeaders.length; index += 2)
    if (raw.rawHeaders[index]?.length === 4 && raw.rawHeaders[index]?.toLowerCase() === 'host') hostCount += 1;
  return hostCount === 1;
}

/**
 * Rejects CONNECT, which asks a proxy for a tunnel and which Node.js reports as a separate event. `target` is the
 * socket over HTTP/1.1, and the response over HTTP/2.
 */
function rejectTunnels(server: FastifyInstance['server'], log: Logger): void {
  server.on('connect', (request: IncomingMessage, target: Duplex | ServerResponse) => {
    const wire = toWire(
      new DomainError(
        'method_not_allowed',
        'method_not_allowed',
        'this server is not a proxy: CONNECT is not supported',
      ),
      randomUUID(),
    );
    log.info(
      {
        verb: 'CONNECT',
        http: wire.http,
        reason: wire.reason,
        request_id: wire.requestId,
        peer: request.socket.remoteAddress,
      },
      'http.rejected',
    );
    if ('writeHead' in target)
      target
        .writeHead(wire.http, { 'content-type': JSON_TYPE, 'x-request-id': wire.requestId })
        .end(JSON.stringify(createErrorJson(wire)));
    else closeWithError(wire, target);
  });
}

/** Responds to a request that failed a check of its headers, and logs that. */
function reject(error: WireError, request: FastifyRequest, reply: FastifyReply, log: Logger): void {
  const wire = { ...error, requestId: getRequestId(reply) };
  log.info(
    { http: wire.http, reason: wire.reason, request_id: wire.requestId, peer: getPeer(request) },
    'http.rejected',
  );
  sendError(reply, wire);
}
