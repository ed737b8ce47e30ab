import { status } from '@grpc/grpc-js';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { DomainError, type Violation } from '../../kernel/errors';
import { getCachedEncoding } from '../../kernel/cacheableResponse';
import type { Http2ServerRequest } from 'node:http2';
import { logLateFailure, toClientError } from '../pipeline/callLog';
import type { CallPipeline } from '../pipeline/callPipeline';
import { createExchange } from '../pipeline/exchange';
import type { Exchange, ServerCall } from '../pipeline/serverCall';
import { mergeRepeated } from '../pipeline/repeatedHeader';
import type { MethodHandler } from '../pipeline/methodHandler';
import type { ServerStreamHandler } from '../pipeline/handlers';
import type { ResponseSerializer } from '../json/responseSerializer';
import type { RequestReader } from '../json/requestReader';
import { parseStrict } from '../json/strictJson';
import type { WireError } from '../errors/errorTable';
import { clientCancelled, ActiveCall } from '../pipeline/activeCall';
import { sendContent } from './content';
import { createErrorJson, sendError } from './errorResponse';
import { sendContinue } from './expectContinue';
import {
  abortResponse,
  isClientDisconnected,
  rejectKeysInUrl,
  getRequestId,
  requireUncompressed,
  requireUtf8,
} from './headers';
import { createJsonResponse, sendJson, applyConditionalHeaders } from './conditional';
import { getPeer } from './peer';
import type { ResponseKind } from './routes';
import { StreamResponse, type StreamTimes } from './streamResponse';
import { Upload } from './upload';

/** What a call needs to know about its route. */
export interface RouteContext {
  readonly method: MethodHandler;
  readonly reader: RequestReader;
  readonly serializer: ResponseSerializer;
  readonly bodyRule: string;
  readonly isBodyRequired: boolean;
  readonly responseKind: ResponseKind;
  readonly times: StreamTimes;
}

/** One call over HTTP, from its headers to the end of its response. */
export class HttpServerCall implements ServerCall {
  readonly maxPendingSends = 1; // more than 1 would not be faster: a send only waits if the client reads too slowly
  readonly transport = 'http';
  readonly context: ActiveCall;
  readonly method: MethodHandler;
  isFinished = false;
  private readBody: (() => void) | undefined;
  private stream: StreamResponse | undefined;
  private upload: Upload | undefined;
  private exchange: Exchange | undefined;

  constructor(
    private readonly pipeline: CallPipeline,
    private readonly route: RouteContext,
    private readonly request: FastifyRequest,
    private readonly reply: FastifyReply,
  ) {
    this.method = route.method;
    this.context = new ActiveCall(
      route.method.descriptor.path,
      getPeer(request),
      pipeline.log,
      pipeline.clock.monotonic(),
    );
    this.context.pathParameters = request.params;
  }

  /** The HTTP/2 session or the TCP socket of the request, which identifies the network connection. */
  get session(): object {
    const { stream } = this.request.raw as unknown as Partial<Http2ServerRequest>;
    return stream?.session ?? this.request.raw.socket;
  }

  /** Starts the call when its headers have arrived. `readBody` is called when the call is admitted. */
  begin(readBody: () => void): void {
    this.readBody = readBody;
    this.context.requestId = getRequestId(this.reply);
    this.reply.raw.once('close', () => this.onClose());
    void this.pipeline.admit(this);
  }

  checkHeaders(): void {
    rejectKeysInUrl(this.request);
  }

  /** Lets the client send its body, and reads it. */
  startReading(): void {
    if (this.route.responseKind === 'stream')
      this.stream = new StreamResponse(this.request, this.reply, this.route.times);
    sendContinue(this.reply);
    this.readBody?.();
  }

  get apiKey(): string | undefined {
    return mergeRepeated([findHeader(this.request, 'x-api-key') ?? '']);
  }

  /**
   * Lists the organizations in the header and the query. Different repeated headers are joined by a comma, which no
   * organization id contains, so that they are rejected later.
   */
  listOrganizations(): string[] {
    const inHeader = mergeRepeated([findHeader(this.request, 'x-organization-id') ?? '']) ?? '';
    return [inHeader, ...(this.request.query as URLSearchParams).getAll('organizationId')].filter((id) => id !== '');
  }

  header(name: string): string | undefined {
    return findHeader(this.request, name);
  }

  /** Handles a request whose body has arrived completely. */
  receive(body: Buffer | undefined): void {
    if (this.isFinished) return;
    const { request, route } = this;
    const violations: Violation[] = [];
    try {
      const json = body && body.length > 0 ? this.parseBody(body) : undefined;
      const message = route.reader.read(
        {
          path: request.params as Record<string, string>,
          query: request.query as URLSearchParams,
          body: json,
          bodyRule: route.bodyRule,
          isBodyRequired: route.isBodyRequired,
        },
        violations,
      );
      applyConditionalHeaders(request, this.method.descriptor, message, violations);
      this.stream?.applyLastEventId(this.method.descriptor, message);
      this.stream?.startOpenTimer();
      if (route.responseKind === 'download') void this.download(message, violations);
      else this.pipeline.process(this, message, violations);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Parses the body as JSON. Throws validation_failed, media_type_unsupported. */
  private parseBody(body: Buffer): unknown {
    requireUncompressed(this.request);
    requireUtf8(this.request);
    return parseStrict(body);
  }

  /** Handles an upload, whose body is read as a stream. */
  receiveUpload(): void {
    const { request, route, method } = this;
    if (this.isFinished) return;
    try {
      requireUncompressed(request);
      this.upload = new Upload({
        request,
        descriptor: method.descriptor,
        reader: route.reader,
        fail: (error) => this.fail(error),
      });
      this.exchange = createExchange(this.pipeline, this);
      this.exchange.start();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Reads the next message of an upload. Other requests have a single message, which does not wait for this call. */
  read(): void {
    this.upload?.next().then(
      (message) => (message ? this.exchange?.onMessage(message) : this.exchange?.onHalfClose()),
      (error: unknown) => this.fail(error),
    );
  }

  /** Sends the only response and ends the call with OK. Does nothing if the call has ended. */
  respond(response: unknown): void {
    if (this.isFinished) return;
    try {
      const { descriptor } = this.method;
      const httpStatus = this.getStatus(response);
      const encoded = getCachedEncoding(response) ?? {}; // set if later responses can reuse the text
      const text = descriptor.successStatus === 204 ? '' : (encoded.text ??= this.route.serializer.toText(response));
      const jsonResponse = createJsonResponse(this.request, descriptor, httpStatus, {
        text,
        etag: (response as { etag?: string }).etag,
        encoded,
      });
      this.pipeline.responses.setUnreadBytes(this, jsonResponse.text.length);
      if (this.context.isReplay) void this.reply.header('idempotency-replayed', 'true');
      this.endCall(status.OK, undefined, jsonResponse.http);
      sendJson(this.reply, jsonResponse);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Sends one message of a stream. Resolves when the next one may be sent; rejects if the call has ended. */
  async send(response: unknown): Promise<void> {
    if (this.isFinished || this.context.abortReason) throw this.context.abortReason ?? clientCancelled();
    await this.stream?.send(this.route.serializer.toText(response), (response as { resumeToken?: string }).resumeToken);
  }

  /** Ends the call with OK, or with the abort reason if it was aborted. */
  succeed(): void {
    if (this.context.abortReason) this.fail(this.context.abortReason);
    if (this.isFinished) return;
    this.endCall(status.OK, undefined, 200);
    this.stream?.end();
  }

  /**
   * Ends the call with an error, or with the abort reason if it was aborted before. The client receives only this first
   * error; a later one is logged.
   */
  fail(error: unknown): void {
    const reason = this.context.abortReason ?? error;
    if (this.isFinished || reason !== error) logLateFailure(this, error);
    if (this.isFinished) return;
    const wireError = toClientError(this, reason);
    this.endCall(wireError.grpc, wireError.reason, this.isStatusSent ? this.reply.raw.statusCode : wireError.http);
    this.abort(reason instanceof Error ? reason : new Error('the handler failed', { cause: reason }));
    this.sendFailure(wireError);
  }

  /**
   * Signals the handler to stop: through its signal (`context`), the rejected sends of a stream of responses
   * (`stream`), and the failing reads of an upload (`exchange`). At a shutdown, CallRegistry aborts all calls except
   * unary ones, which end soon. A download is not unary, but it ends soon too, so a running download ignores the
   * shutdown.
   */
  abort(reason: Error): void {
    const isRunningDownload = !this.isFinished && this.route.responseKind === 'download';
    const isShutdown = reason instanceof DomainError && reason.reason === 'shutting_down';
    if (isRunningDownload && isShutdown) return;
    this.context.abort(reason);
    this.stream?.abort(reason);
    this.exchange?.onAbort(reason);
  }

  /** Always false: HTTP requests have no deadline. */
  isDeadlineExceeded(): boolean {
    return false;
  }

  /** Responds with the bytes of a download, whose method has a handler for its HTTP content. */
  private async download(message: unknown, violations: readonly Violation[]): Promise<void> {
    const { request, reply, context, method } = this;
    try {
      await method.validate(context, message, violations);
      await this.pipeline.guard(this, message);
      const { content } = method.handler as ServerStreamHandler<unknown, unknown>;
      if (!content) throw new Error(`the download method ${method.descriptor.path} has no content handler`);
      const http = await sendContent(request, reply, await content(message, context));
      if (!this.isFinished) this.endCall(status.OK, undefined, http);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Whether the status of the response can no longer change. */
  private get isStatusSent(): boolean {
    return this.stream?.isOpen === true || this.reply.raw.headersSent;
  }

  /**
   * Sends the error to the client: as the last record of a stream that has started, otherwise as the response. A
   * response that has started otherwise is aborted, so that the client notices that it is incomplete.
   */
  private sendFailure(error: WireError): void {
    if (isClientDisconnected(this.reply)) return;
    if (this.stream?.isOpen) this.stream.fail(JSON.stringify(createErrorJson(error)));
    else if (this.isStatusSent) abortResponse(this.reply);
    else sendError(this.reply, error);
  }

  /** Called when the connection is closed or the response is sent. */
  private onClose(): void {
    this.pipeline.responses.unregisterCall(this);
    if (this.isFinished) return;
    const reason = clientCancelled();
    this.endCall(status.CANCELLED, reason.reason, 499);
    this.abort(reason);
  }

  /**
   * Returns the HTTP status of a response: that of the first status rule of the method (a value of a response field and
   * its HTTP status) that matches, otherwise the success status.
   */
  private getStatus(response: unknown): number {
    const { statusRules, successStatus } = this.method.descriptor;
    if (statusRules.length === 0) return successStatus;
    const json = this.route.serializer.toJsonValue(response) as Readonly<Record<string, unknown>>;
    return statusRules.find(({ field, value }) => String(json[field]) === value)?.status ?? successStatus;
  }

  /** Marks the call as ended and reports its end. The caller then sends the response. */
  private endCall(code: status, reason: string | undefined, http: number): void {
    this.isFinished = true;
    this.upload?.stop();
    this.pipeline.onEnd(this, { code, reason, http });
  }
}

/** Returns a header without blanks around it; repeated headers are joined by a comma. */
function findHeader(request: FastifyRequest, name: string): string | undefined {
  const value = request.headers[name];
  return (Array.isArray(value) ? value.join(',') : value)?.trim();
}
