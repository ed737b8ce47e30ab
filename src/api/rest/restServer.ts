import type { AddressInfo } from 'node:net';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { DomainError, validationFailed } from '../../kernel/errors';
import { redactApiKeys } from '../../kernel/redactApiKeys';
import { truncateForDisplay } from '../../kernel/truncate';
import { parseHostPort, formatHostPort } from '../../config';
import { toWire } from '../errors/errorTable';
import type { LinkedContent } from '../pipeline/handlers';
import { ResponseSerializers } from '../json/responseSerializer';
import { RequestReaders } from '../json/requestReader';
import { toListenError } from '../errors/listenError';
import type { ServerTransport, Services } from '../services';
import { createHealthPage, createReadyPage, type StatusPage } from '../health/statusPages';
import type { ServerTls } from '../tls/serverTls';
import { sendError } from './errorResponse';
import type { ClientSockets } from './clientSockets';
import { deferContinue } from './expectContinue';
import { getRequestId } from './headers';
import { HttpServerCall, type RouteContext } from './httpServerCall';
import type { HttpLimits } from './httpLimits';
import { addLinks } from './links';
import { getPeer } from './peer';
import { createHttpServer } from './httpServer';
import { addDocumentation } from './documentation';
import { listRestRoutes, VerbRegistry, groupVerbsByPattern, type RestRoute } from './routes';
import { STREAM_TIMES, type StreamTimes } from './streamResponse';
import { registerUploadParsers } from './uploadForm';

/** Dependencies and settings of the REST server. */
export interface RestServerOptions {
  readonly services: Services;
  readonly tls: ServerTls;
  /** Addresses and networks of trusted proxies, whose X-Forwarded-* headers are used. */
  readonly trustedProxies: readonly string[];
  /** Origins whose pages may call the server, `*` for all; default: none. */
  readonly corsOrigins?: readonly string[];
  /** Default: DEFAULT_HTTP_LIMITS. */
  readonly limits?: Partial<HttpLimits>;
  /** Whether /openapi.json, /openapi-grpc.json and /docs are served. */
  readonly docsEnabled: boolean;
  /** The URL at which clients reach this server; empty if unknown. */
  readonly publicUrl: string;
  /** Content that signed links open without an API key. */
  readonly links: readonly LinkedContent[];
  /** Default: STREAM_TIMES. */
  readonly streamTimes?: StreamTimes;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The API call of the request; undefined for other requests, such as pages. */
    call: HttpServerCall | undefined;
  }
}

/** The maximum size of a JSON body in bytes. */
const MAX_BODY_BYTES = 1024 * 1024;

const MAX_PATH_LENGTH = 200;

/** The HTTP server: it serves the REST routes of the protos in the same process and with the same handlers as gRPC. */
export class RestServer implements ServerTransport {
  private readonly app: FastifyInstance;
  private readonly sockets: ClientSockets;
  /** The paths of pages, which are not API calls. */
  private readonly pagePaths: readonly string[];
  private verbRegistry = new VerbRegistry(new Map());

  constructor(private readonly options: RestServerOptions) {
    const server = createHttpServer({ ...options, log: options.services.pipeline.log }, (error, request, reply) =>
      this.onError(error, request, reply),
    );
    ({ app: this.app, sockets: this.sockets } = server);
    this.app.decorateRequest('call', undefined);
    this.app.removeAllContentTypeParsers();
    this.app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) =>
      done(null, body),
    );
    this.app.setErrorHandler((error: FastifyError, request, reply) => this.onError(error, request, reply));
    this.app.addHook('onRequest', (request, reply, done) =>
      request.is404 ? this.handleUnsupportedVerb(request, reply, done) : done(),
    );
    this.app.setNotFoundHandler((request) => {
      throw new DomainError(
        'not_found',
        'route_not_found',
        `there is no route ${request.method} ${getPath(request)}: see /openapi.json for all routes`,
      );
    });
    deferContinue(this.app.server);
    this.pagePaths = [
      ...this.addHealth(),
      ...(options.docsEnabled ? addDocumentation(this.app, options.publicUrl) : []),
    ];
  }

  /**
   * Listens on `host:port` (port 0: any free port) and serves the services that are registered by now. Throws a
   * DomainError that explains what to change.
   */
  async start(listen: string): Promise<{ address: string }> {
    const { tls, services, links } = this.options;
    tls.assertMayListen(listen);
    const routes = listRestRoutes(services);
    const readers = new RequestReaders(services.descriptors);
    const serializers = new ResponseSerializers(services.descriptors);
    for (const route of routes)
      if (route.responseKind !== 'upload') this.addRoute(this.app, route, readers, serializers);
    void this.app.register(async (scope) => {
      await registerUploadParsers(scope);
      for (const route of routes)
        if (route.responseKind === 'upload') this.addRoute(scope, route, readers, serializers);
    });
    addLinks(this.app, links, services.pipeline);
    const pages = [...this.pagePaths, ...links.map(({ path }) => path)].map((pattern) => ({
      verb: 'GET' as const,
      pattern,
      responseKind: 'download' as const,
    }));
    this.verbRegistry = new VerbRegistry(groupVerbsByPattern([...routes, ...pages]));
    this.addShadowedVerbs();
    const { host, port } = parseHostPort(listen) ?? { host: listen, port: 0 };
    try {
      await this.app.listen({ host, port });
    } catch (error) {
      throw toListenError(listen, 'PLANTROOM_HTTP_LISTEN', error as Error);
    }
    tls.onChange(() =>
      (this.app.server as { setSecureContext?(context: object): void }).setSecureContext?.(tls.getContext()),
    );
    return { address: formatHostPort({ host, port: (this.app.server.address() as AddressInfo).port }) };
  }

  async close(): Promise<void> {
    await this.app.close();
  }

  /** Closes the remaining connections immediately. */
  closeNow(): void {
    this.sockets.destroyAll();
    void this.app.close();
  }

  /**
   * Adds a route to the router. The context of its calls is created by the first call, because most routes are never
   * called.
   */
  private addRoute(
    app: FastifyInstance,
    route: RestRoute,
    readers: RequestReaders,
    serializers: ResponseSerializers,
  ): void {
    const { method, verb, pattern, responseKind } = route;
    const { services, streamTimes: times = STREAM_TIMES } = this.options;
    const { pipeline } = services;
    let context: RouteContext | undefined;
    app.route({
      method: responseKind === 'download' ? [verb, 'HEAD'] : verb,
      url: pattern,
      bodyLimit: MAX_BODY_BYTES,
      exposeHeadRoute: responseKind === 'json',
      onRequest: (request, reply, done) => {
        if (Object.values(request.params as Record<string, string>).includes('')) {
          reply.callNotFound(); // an id in the path is empty
          return;
        }
        context ??= {
          ...route,
          reader: readers.createReader(method.descriptor),
          serializer: serializers.getSerializer(method.descriptor.response),
          times,
        };
        request.call = new HttpServerCall(pipeline, context, request, reply);
        request.call.begin(done);
      },
      handler: ({ call, body }) =>
        responseKind === 'upload' ? call?.receiveUpload() : call?.receive(body as Buffer | undefined),
    });
  }

  /**
   * Handles a verb that a known path does not support, before the body is read: responds to OPTIONS with the supported
   * verbs, and rejects others.
   */
  private handleUnsupportedVerb(request: FastifyRequest, reply: FastifyReply, next: (error?: Error) => void): void {
    const allow = this.verbRegistry.findAllow(request.url.split('?')[0] ?? '');
    if (allow === undefined) return next();
    void reply.header('allow', allow);
    if (request.method === 'OPTIONS') void reply.code(204).send();
    else next(methodNotAllowed(allow));
  }

  /**
   * Rejects the verbs that the router would otherwise accept for a path because of a more general pattern. `reject`
   * runs before the body is read; it is also the handler, which every route must have.
   */
  private addShadowedVerbs(): void {
    for (const { url, method, allow } of this.verbRegistry.findShadowedVerbs()) {
      const reject = (_: FastifyRequest, reply: FastifyReply): never => {
        void reply.header('allow', allow);
        throw methodNotAllowed(allow);
      };
      this.app.route({ method, url, exposeHeadRoute: false, onRequest: reject, handler: reject });
    }
  }

  /** Adds the health pages. Returns their paths. */
  private addHealth(): readonly string[] {
    const { readiness } = this.options.services;
    this.app.get('/healthz', async (_, reply) => await sendStatusPage(reply, createHealthPage()));
    this.app.get('/readyz', async (_, reply) => await sendStatusPage(reply, await createReadyPage(readiness)));
    return ['/healthz', '/readyz'];
  }

  /**
   * Responds to an error of fastify or of a route. A request that has a call ends the call; other errors are logged
   * here.
   */
  private onError(error: FastifyError | DomainError, request: FastifyRequest, reply: FastifyReply): void {
    const reason = error instanceof DomainError ? error : toDomainError(error);
    if (request.call) {
      request.call.fail(reason);
      return;
    }
    const requestId = getRequestId(reply);
    const wireError = toWire(reason, requestId);
    const fields = {
      verb: request.method,
      path: getPath(request),
      http: wireError.http,
      reason: wireError.reason,
      request_id: requestId,
      peer: getPeer(request),
    };
    if (wireError.cause === undefined) this.options.services.pipeline.log.info(fields, 'http.rejected');
    else this.options.services.pipeline.log.error({ ...fields, err: wireError.cause }, 'http.failed');
    sendError(reply, wireError);
  }
}

async function sendStatusPage(reply: FastifyReply, { http, json }: StatusPage): Promise<FastifyReply> {
  return await reply.code(http).send(json);
}

/** Creates the error for a verb that a path does not support. `allow`: the supported verbs, as in the header Allow. */
function methodNotAllowed(allow: string): DomainError {
  return new DomainError(
    'method_not_allowed',
    'method_not_allowed',
    `this path does not support the method: use one of ${allow}`,
  );
}

/** Returns the path for logs and messages: truncated to 200 characters, and without API keys. */
function getPath(request: FastifyRequest): string {
  return redactApiKeys(request.url.split('?')[0] ?? '').slice(0, MAX_PATH_LENGTH);
}

/** Converts an error of fastify that the client caused to a DomainError; any other error is returned unchanged. */
function toDomainError(error: FastifyError): unknown {
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new DomainError(
        'too_large',
        'message_too_large',
        `the body is too large: at most ${MAX_BODY_BYTES} bytes are allowed`,
      );
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new DomainError(
        'unsupported_media_type',
        'media_type_unsupported',
        'this route does not support the type of the body: send JSON with Content-Type: application/json',
      );
    default:
      return error.statusCode !== undefined && error.statusCode < 500
        ? validationFailed([{ field: '', description: truncateForDisplay(error.message, MAX_PATH_LENGTH) }])
        : error;
  }
}
