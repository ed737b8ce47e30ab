import fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { toWire, type WireError } from '../errorTable';
import type { ServerTls } from '../tls/serverTls';
import { Browsers } from './browsers';
import { ConnectionFaults } from './connectionFaults';
import { Connections } from './connections';
import { DEFAULT_HTTP_LIMITS, httpServerOf, type HttpLimits } from './httpLimits';
import { endWith, expectationFailed, headersTooLarge, hostUnclear } from './malformed';
import { errorJson, JSON_TYPE, sendError } from './errorAnswer';
import { expectsOther } from './expectations';
import { giveRequestId, requestIdOf } from './headers';
import { peerOf } from './peer';

/** What the port is opened with. */
export interface PortOptions {
  readonly tls: ServerTls;
  readonly log: Logger;
  /** Addresses and networks of proxies whose X-Forwarded-* headers are believed. */
  readonly trustedProxies: readonly string[];
  /** Origins whose pages may call, `*` for all; where nothing is said: none. */
  readonly corsOrigins?: readonly string[];
  /** Where nothing is said: DEFAULT_HTTP_LIMITS. */
  readonly limits?: Partial<HttpLimits> | undefined;
}

/** The port before it has routes: what holds for every request, whatever it asks for. */
export interface Port {
  readonly app: FastifyInstance;
  readonly connections: Connections;
}

const NO_QUERY = new URLSearchParams();
const LONGEST_PARAMETER = 512;

/** Makes it. `onError` answers what fastify finds wrong with an address, before there is a route. */
export function portOf({ tls, log, trustedProxies, corsOrigins = [], ...given }: PortOptions, onError: (error: FastifyError | DomainError, request: FastifyRequest, reply: FastifyReply) => void): Port {
  const limits = { ...DEFAULT_HTTP_LIMITS, ...given.limits };
  const browsers = new Browsers(corsOrigins);
  const faults = new ConnectionFaults(log, onError);
  const app: FastifyInstance = fastify({
    logger: false,
    trustProxy: trustedProxies.length > 0 ? [...trustedProxies] : false,
    routerOptions: { maxParamLength: LONGEST_PARAMETER, querystringParser: (text: string) => (text === '' ? NO_QUERY : new URLSearchParams(text)) as never },
    // The types of an HTTP/2 server differ in what nobody here asks it for.
    serverFactory: (listener) => httpServerOf(tls, limits, listener) as never,
    clientErrorHandler: (error: NodeJS.ErrnoException, socket: Socket) => faults.onError(error, socket),
    frameworkErrors: (error, request, reply) => {
      faults.began(request, reply);
      giveRequestId(request, reply);
      if (!browsers.open(request, reply)) onError(error, request, reply);
    },
    forceCloseConnections: 'idle',
    return503OnClosing: false,
  });
  const connections = new Connections(app.server, limits, tls.isOn, (request) => faults.refuseSlow(request));
  app.addHook('onRequest', (request, reply, done) => {
    faults.began(request, reply);
    giveRequestId(request, reply);
    if (browsers.open(request, reply)) return;
    if (request.raw.rawHeaders.length > limits.headerPairs * 2) refuse(headersTooLarge(), request, reply, log);
    else if (expectsOther(request)) refuse(expectationFailed(), request, reply, log);
    else if (namesHost(request)) done();
    else {
      reply.raw.shouldKeepAlive = false;
      onError(hostUnclear(), request, reply);
    }
  });
  refuseTunnels(app.server, log);
  return { app, connections };
}

/** HTTP/1.1 asks for one header Host, and HTTP/2 sees to its own. */
function namesHost({ raw }: FastifyRequest): boolean {
  if (raw.httpVersion !== '1.1') return true;
  let hosts = 0;
  for (let at = 0; at < raw.rawHeaders.length; at += 2) if (raw.rawHeaders[at]?.length === 4 && raw.rawHeaders[at]?.toLowerCase() === 'host') hosts += 1;
  return hosts === 1;
}

/** Answers CONNECT, which node hands over beside all other requests. */
function refuseTunnels(server: FastifyInstance['server'], log: Logger): void {
  server.on('connect', (request: IncomingMessage, carrier: Duplex | ServerResponse) => {
    const wire = toWire(new DomainError('method_not_allowed', 'method_not_allowed', 'this server is no proxy; send requests for what it has'), randomUUID());
    log.info({ verb: 'CONNECT', http: wire.http, reason: wire.reason, request_id: wire.requestId, peer: request.socket.remoteAddress }, 'http.refused');
    if ('writeHead' in carrier) carrier.writeHead(wire.http, { 'content-type': JSON_TYPE, 'x-request-id': wire.requestId }).end(JSON.stringify(errorJson(wire)));
    else endWith(wire, carrier);
  });
}

function refuse(told: WireError, request: FastifyRequest, reply: FastifyReply, log: Logger): void {
  const wire = { ...told, requestId: requestIdOf(reply) };
  log.info({ http: wire.http, reason: wire.reason, request_id: wire.requestId, peer: peerOf(request) }, 'http.refused');
  sendError(reply, wire);
}
