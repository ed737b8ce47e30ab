import fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Socket } from 'node:net';
import type { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import type { ServerTls } from '../tls/serverTls';
import { Browsers } from './browsers';
import { ConnectionFaults } from './connectionFaults';
import { Connections } from './connections';
import { DEFAULT_HTTP_LIMITS, httpServerOf, type HttpLimits } from './httpLimits';
import { headersTooLarge } from './malformed';
import { sendError } from './errorAnswer';
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
    if (request.raw.rawHeaders.length > limits.headerPairs * 2) refuseHeaders(request, reply, log);
    else done();
  });
  return { app, connections };
}

function refuseHeaders(request: FastifyRequest, reply: FastifyReply, log: Logger): void {
  const wire = { ...headersTooLarge(), requestId: requestIdOf(reply) };
  log.info({ http: wire.http, reason: wire.reason, request_id: wire.requestId, peer: peerOf(request) }, 'http.refused');
  sendError(reply, wire);
}
