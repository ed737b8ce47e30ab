import type { AddressInfo } from 'node:net';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { DomainError, validationFailed } from '../../kernel/errors';
import { withoutKeys } from '../../kernel/keyText';
import { shortened } from '../../kernel/shortened';
import { findHostPort, hostPortText } from '../../config';
import { toWire } from '../errorTable';
import type { LinkedContent } from '../handlers';
import { AnswerWriters } from '../json/answerWriter';
import { RequestReaders } from '../json/requestReader';
import { listenFault } from '../listenFault';
import type { Door, Services } from '../services';
import { healthPage, readyPage, type StatusPage } from '../status/statusPages';
import type { ServerTls } from '../tls/serverTls';
import { sendError } from './errorAnswer';
import type { Connections } from './connections';
import { holdBodies } from './expectations';
import { requestIdOf } from './headers';
import { HttpCall, type CallShape } from './httpCall';
import type { HttpLimits } from './httpLimits';
import { addLinks } from './links';
import { peerOf } from './peer';
import { portOf } from './port';
import { addPages } from './pages';
import { restRoutes, TakenVerbs, verbsOf, type RestRoute } from './routes';
import { STREAM_TIMES, type StreamTimes } from './streams';
import { takeFiles } from './uploadForm';

/** What the REST server needs. */
export interface RestServerOptions {
  readonly services: Services;
  readonly tls: ServerTls;
  /** Addresses and networks of proxies whose X-Forwarded-* headers are believed. */
  readonly trustedProxies: readonly string[];
  /** Origins whose pages may call, `*` for all; where nothing is said: none. */
  readonly corsOrigins?: readonly string[];
  /** Where nothing is said: DEFAULT_HTTP_LIMITS. */
  readonly limits?: Partial<HttpLimits>;
  /** Whether /openapi.json and /docs are shown. */
  readonly docs: boolean;
  /** The address at which clients reach this server; empty: not told. */
  readonly publicUrl: string;
  /** Content that links open without a key. */
  readonly links: readonly LinkedContent[];
  /** Where nothing is said: STREAM_TIMES. */
  readonly streamTimes?: StreamTimes;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The call that the request became; undefined for what is no call. */
    call: HttpCall | undefined;
  }
}

/** The largest JSON body, in bytes. */
export const LARGEST_BODY = 1024 * 1024;

const LONGEST_PATH = 200;

/** The HTTP port: REST by the routes of the protos, in the same process and through the same handlers as gRPC. */
export class RestServer implements Door {
  private readonly app: FastifyInstance;
  private readonly connections: Connections;
  /** The paths that are no calls. */
  private readonly shown: readonly string[];
  private taken = new TakenVerbs(new Map());

  constructor(private readonly options: RestServerOptions) {
    const port = portOf({ ...options, log: options.services.edge.log }, (error, request, reply) => this.onError(error, request, reply));
    ({ app: this.app, connections: this.connections } = port);
    this.app.decorateRequest('call', undefined);
    this.app.removeAllContentTypeParsers();
    this.app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
    this.app.setErrorHandler((error: FastifyError, request, reply) => this.onError(error, request, reply));
    this.app.addHook('onRequest', (request, reply, done) => (request.is404 ? this.answerOtherVerb(request, reply, done) : done()));
    this.app.setNotFoundHandler((request) => {
      throw new DomainError('not_found', 'route_unknown', `there is no ${request.method} ${pathOf(request)}; /openapi.json lists all that there is`);
    });
    holdBodies(this.app.server);
    this.shown = [...this.addHealth(), ...(options.docs ? addPages(this.app, options.publicUrl) : [])];
  }

  /** Listens on `host:port` (port 0: any that is free), for the services that are there by now. Throws a DomainError that says what to change. */
  async start(listen: string): Promise<{ address: string }> {
    const { tls, services, links } = this.options;
    tls.requireAllowed(listen);
    const routes = restRoutes(services);
    const readers = new RequestReaders(services.descriptors);
    const writers = new AnswerWriters(services.descriptors);
    for (const route of routes) if (route.form !== 'upload') this.addRoute(this.app, route, readers, writers);
    void this.app.register(async (scope) => {
      await takeFiles(scope);
      for (const route of routes) if (route.form === 'upload') this.addRoute(scope, route, readers, writers);
    });
    addLinks(this.app, links, services.edge);
    const pages = [...this.shown, ...links.map(({ path }) => path)].map((pattern) => ({ verb: 'GET' as const, pattern, form: 'download' as const }));
    this.taken = new TakenVerbs(verbsOf([...routes, ...pages]));
    this.hideWiderVerbs();
    const { host, port } = findHostPort(listen) ?? { host: listen, port: 0 };
    try {
      await this.app.listen({ host, port });
    } catch (error) {
      throw listenFault(listen, 'PLANTROOM_HTTP_LISTEN', error as Error);
    }
    tls.onChange(() => (this.app.server as { setSecureContext?(context: object): void }).setSecureContext?.(tls.context()));
    return { address: hostPortText({ host, port: (this.app.server.address() as AddressInfo).port }) };
  }

  async close(): Promise<void> {
    await this.app.close();
  }

  cut(): void {
    this.connections.cut();
    void this.app.close();
  }

  private addRoute(app: FastifyInstance, route: RestRoute, readers: RequestReaders, writers: AnswerWriters): void {
    const { method, verb, pattern, form } = route;
    const { services, streamTimes: times = STREAM_TIMES } = this.options;
    const { edge } = services;
    let shape: CallShape | undefined; // made by the first call: most routes of a server are never called
    app.route({
      method: form === 'download' ? [verb, 'HEAD'] : verb,
      url: pattern,
      bodyLimit: LARGEST_BODY,
      exposeHeadRoute: form === 'json',
      onRequest: (request, reply, done) => {
        shape ??= { ...route, reader: readers.of(method.facts), writer: writers.of(method.facts.response), times };
        request.call = new HttpCall(edge, shape, request, reply);
        request.call.begin(done);
      },
      handler: ({ call, body }) => (form === 'upload' ? call?.receiveUpload() : call?.receive(body as Buffer | undefined)),
    });
  }

  /** A verb that a known path does not take: OPTIONS with what it takes, others are refused before their body is read. */
  private answerOtherVerb(request: FastifyRequest, reply: FastifyReply, next: (error?: Error) => void): void {
    const allow = this.taken.findAllow(request.url.split('?')[0] ?? '');
    if (allow === undefined) return next();
    void reply.header('allow', allow);
    if (request.method === 'OPTIONS') void reply.code(204).send();
    else next(methodNotAllowed(allow));
  }

  private hideWiderVerbs(): void {
    for (const { url, method, allow } of this.taken.hidden()) {
      const refuse = (_: FastifyRequest, reply: FastifyReply): never => {
        void reply.header('allow', allow);
        throw methodNotAllowed(allow);
      };
      this.app.route({ method, url, exposeHeadRoute: false, onRequest: refuse, handler: refuse });
    }
  }

  /** Gives the paths. */
  private addHealth(): readonly string[] {
    const { readiness } = this.options.services;
    this.app.get('/healthz', async (_, reply) => await show(reply, healthPage()));
    this.app.get('/readyz', async (_, reply) => await show(reply, await readyPage(readiness)));
    return ['/healthz', '/readyz'];
  }

  /** What fastify found wrong, and what a route threw. */
  private onError(error: FastifyError | DomainError, request: FastifyRequest, reply: FastifyReply): void {
    const reason = error instanceof DomainError ? error : domainErrorOf(error);
    if (request.call) return request.call.fail(reason);
    const requestId = requestIdOf(reply);
    const wire = toWire(reason, requestId);
    const fields = { verb: request.method, path: pathOf(request), http: wire.http, reason: wire.reason, request_id: requestId, peer: peerOf(request) };
    if (wire.cause === undefined) this.options.services.edge.log.info(fields, 'http.refused');
    else this.options.services.edge.log.error({ ...fields, err: wire.cause }, 'http.failed');
    sendError(reply, wire);
  }
}

async function show(reply: FastifyReply, { http, json }: StatusPage): Promise<FastifyReply> {
  return await reply.code(http).send(json);
}

function methodNotAllowed(allow: string): DomainError {
  return new DomainError('method_not_allowed', 'method_not_allowed', `this address takes ${allow}; use one of these`);
}

/** The path as the log and the caller are told of it: not all of a long one, and no key that somebody wrote into it. */
function pathOf(request: FastifyRequest): string {
  return withoutKeys(request.url.split('?')[0] ?? '').slice(0, LONGEST_PATH);
}

function domainErrorOf(error: FastifyError): unknown {
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new DomainError('too_large', 'message_too_large', `the body is too large; at most ${LARGEST_BODY} bytes are allowed`);
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new DomainError('unsupported_media_type', 'media_type_unsupported', 'the body is of a type that this address does not take; send JSON with Content-Type: application/json');
    default:
      return error.statusCode !== undefined && error.statusCode < 500 ? validationFailed([{ field: '', description: shortened(error.message, LONGEST_PATH) }]) : error;
  }
}
