import { status } from '@grpc/grpc-js';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { DomainError, type Violation } from '../../kernel/errors';
import { encodedOf } from '../../kernel/repeated';
import type { Principal } from '../../kernel/principal';
import { admit, enter } from '../admission';
import type { Edge } from '../calls/edge';
import { exchangeOf, serve } from '../calls/exchange';
import type { Exchange, ServedCall } from '../calls/servedCall';
import type { ServedMethod } from '../calls/servedMethod';
import type { ServerStreamHandler } from '../handlers';
import type { AnswerWriter } from '../json/answerWriter';
import type { RequestReader } from '../json/requestReader';
import { parseStrict } from '../json/strictJson';
import type { WireError } from '../errorTable';
import { callerGone, OpenCall, shuttingDown } from '../openCall';
import { sendContent } from './content';
import { errorJson, sendError } from './errorAnswer';
import { sendContinue } from './expectations';
import { cut, isGone, refuseKeys, requestIdOf } from './headers';
import { jsonAnswer, sendJson, takeConditions } from './conditional';
import { peerOf } from './peer';
import type { AnswerForm } from './routes';
import { StreamAnswer, type StreamTimes } from './streams';
import { Upload } from './upload';

/** What a route knows of its method. */
export interface CallShape {
  readonly method: ServedMethod;
  readonly reader: RequestReader;
  readonly writer: AnswerWriter;
  readonly bodyRule: string;
  readonly needsBody: boolean;
  readonly form: AnswerForm;
  readonly times: StreamTimes;
}

/** One call over HTTP, from its headers to its end. */
export class HttpCall implements ServedCall {
  readonly unsentAtOnce = 1; // a send waits only for a reader that is behind
  readonly transport = 'http';
  readonly context: OpenCall;
  readonly method: ServedMethod;
  private finished = false;
  private stream: StreamAnswer | undefined;
  private upload: Upload | undefined;
  private exchange: Exchange | undefined;

  constructor(
    private readonly edge: Edge,
    private readonly shape: CallShape,
    private readonly request: FastifyRequest,
    private readonly reply: FastifyReply,
  ) {
    this.method = shape.method;
    this.context = new OpenCall(shape.method.facts.path, peerOf(request), edge.log, edge.clock.monotonic());
    this.context.inPath = request.params;
  }

  /** The headers are here: everything that they decide is decided before the body is read. Then `next`. */
  begin(next: () => void): void {
    const { request, reply, context, method } = this;
    this.edge.open(this);
    context.requestId = requestIdOf(reply);
    this.edge.began(this);
    reply.raw.once('close', () => this.onClose());
    try {
      refuseKeys(request);
      if (this.edge.draining) throw shuttingDown();
      const principal = admit(this.edge.authenticator, method.facts, headerOf(request, 'x-api-key'), context.peer);
      if (principal instanceof Promise) principal.then((known) => this.enter(known, next)).catch((error: unknown) => this.fail(error));
      else this.enter(principal, next);
    } catch (error) {
      this.fail(error);
    }
  }

  get traceparent(): string | undefined {
    return headerOf(this.request, 'traceparent');
  }

  /** The body is here, whole. */
  receive(body: Buffer | undefined): void {
    if (this.finished) return;
    const { request, shape } = this;
    const found: Violation[] = [];
    try {
      const json = body && body.length > 0 ? parseStrict(body) : undefined;
      const message = shape.reader.read({ path: request.params as Record<string, string>, query: request.query as URLSearchParams, body: json, bodyRule: shape.bodyRule, needsBody: shape.needsBody }, found);
      takeConditions(request, this.method.facts, message, found);
      this.stream?.takeLastEventId(this.method.facts, message);
      this.stream?.begin();
      if (shape.form === 'download') this.download(message, found);
      else serve(this, message, found);
    } catch (error) {
      this.fail(error);
    }
  }

  /** The body is on its way. */
  receiveUpload(): void {
    const { request, shape, method } = this;
    if (this.finished) return;
    try {
      this.upload = new Upload({ request, facts: method.facts, reader: shape.reader, fail: (error) => this.fail(error) });
      this.exchange = exchangeOf(this);
      this.exchange.start();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Of one message nothing is to be asked for: it comes by itself. */
  read(): void {
    this.upload?.next().then(
      (message) => (message ? this.exchange?.onMessage(message) : this.exchange?.onHalfClose()),
      (error: unknown) => this.fail(error),
    );
  }

  answer(response: unknown): void {
    if (this.finished) return;
    try {
      const { facts } = this.method;
      const http = this.statusOf(response);
      const encoded = encodedOf(response) ?? {};
      const text = facts.successStatus === 204 ? '' : (encoded.text ??= this.shape.writer.text(response));
      const json = jsonAnswer(this.request, facts, http, { text, etag: (response as { etag?: string }).etag, encoded });
      this.close(status.OK, undefined, json.http);
      sendJson(this.reply, json);
    } catch (error) {
      this.fail(error);
    }
  }

  async send(response: unknown): Promise<void> {
    if (this.finished || this.context.aborted) throw this.context.aborted ?? callerGone();
    await this.stream?.send(this.shape.writer.text(response), (response as { resumeToken?: string }).resumeToken);
  }

  succeed(): void {
    if (this.context.aborted) this.fail(this.context.aborted);
    if (this.finished) return;
    this.close(status.OK, undefined, 200);
    this.stream?.end();
  }

  fail(error: unknown): void {
    const reason = this.context.aborted ?? error; // the first reason to end is the one that the caller is told
    if (this.finished || reason !== error) this.edge.failedLate(this, error);
    if (this.finished) return;
    const wire = this.edge.told(this, reason);
    this.close(wire.grpc, wire.reason, this.isOut ? this.reply.raw.statusCode : wire.http);
    this.abort(reason instanceof Error ? reason : new Error('the handler failed', { cause: reason }));
    this.tell(wire);
  }

  abort(reason: Error): void {
    if (!this.finished && this.shape.form === 'download' && reason instanceof DomainError && reason.reason === 'shutting_down') return; // it has an end of its own, like a unary call
    this.context.abort(reason);
    this.stream?.abort(reason);
    this.exchange?.onAbort(reason);
  }

  readmit(): Promise<unknown> | undefined {
    return this.edge.readmit(this, headerOf(this.request, 'x-api-key'));
  }

  prepare(request: unknown): Promise<void> | undefined {
    return this.edge.prepare(this, request);
  }

  changed(request: unknown, response: unknown, error?: unknown): void {
    this.edge.changed(this, request, response, error);
  }

  isLate(): boolean {
    return false;
  }

  /** Answers with the bytes themselves. */
  private download(message: unknown, found: readonly Violation[]): void {
    const { request, reply, context, method } = this;
    const refused = method.accept(context, message, found);
    const { content } = method.handler as ServerStreamHandler<unknown, unknown>;
    if (!content) throw new Error(`${method.facts.path} is a download without content`);
    const sent = (refused ?? this.prepare(message) ?? Promise.resolve()).then(async () => await sendContent(request, reply, await content(message, context)));
    sent.then(
      (http) => this.finished || this.close(status.OK, undefined, http),
      (error: unknown) => this.fail(error),
    );
  }

  /** Whether the status of the answer is decided. */
  private get isOut(): boolean {
    return this.stream?.isOpen === true || this.reply.raw.headersSent;
  }

  private tell(error: WireError): void {
    if (isGone(this.reply)) return;
    if (this.stream?.isOpen) this.stream.fail(JSON.stringify(errorJson(error)));
    else if (this.isOut) cut(this.reply);
    else sendError(this.reply, error);
  }

  private enter(principal: Principal | undefined, next: () => void): void {
    if (this.finished) return;
    const isStream = !this.method.isUnary;
    if (principal) enter(this.context, principal, organizationsOf(this.request), isStream);
    if (isStream) this.edge.streamOpened(this);
    if (this.shape.form === 'stream') this.stream = new StreamAnswer(this.request, this.reply, this.shape.times);
    sendContinue(this.reply);
    next();
  }

  /** The connection was closed, or the answer was sent. */
  private onClose(): void {
    if (this.finished) return;
    const reason = callerGone();
    this.close(status.CANCELLED, reason.reason, 499);
    this.abort(reason);
  }

  private statusOf(response: unknown): number {
    const { statusRules, successStatus } = this.method.facts;
    if (statusRules.length === 0) return successStatus;
    const json = this.shape.writer.json(response) as Readonly<Record<string, unknown>>;
    return statusRules.find(({ field, value }) => String(json[field]) === value)?.status ?? successStatus;
  }

  private close(code: status, reason: string | undefined, http: number): void {
    this.finished = true;
    this.upload?.stop();
    this.edge.closed(this, code, reason, http);
  }
}

function headerOf(request: FastifyRequest, name: string): string | undefined {
  const given = request.headers[name];
  return Array.isArray(given) ? given.join(',') : given;
}

// A name that is given twice is joined by a comma, which no organization's id holds.
function organizationsOf(request: FastifyRequest): string[] {
  const inHeader = headerOf(request, 'x-organization-id');
  return [...(inHeader ? [inHeader] : []), ...(request.query as URLSearchParams).getAll('organizationId')].filter((one) => one !== '');
}
