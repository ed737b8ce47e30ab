import type { FastifyReply, FastifyRequest } from 'fastify';
import { PassThrough } from 'node:stream';
import type { MethodDescriptor } from '../descriptors/descriptors';
import { clientCancelled } from '../pipeline/activeCall';
import { negotiateType } from './accept';
import { addVary, abortResponse, isClientDisconnected } from './headers';

/** Delays after which a stream acts without the handler, in milliseconds. */
export interface StreamTimes {
  /** The response starts, even if there is no message yet. */
  readonly openMs: number;
  /** The interval of comments that show that a stream of events is alive; they are also sent between messages. */
  readonly commentMs: number;
  /** The connection is closed if the client has not read the end of the stream. */
  readonly lingerMs: number;
}

/** The default times. */
export const STREAM_TIMES: StreamTimes = { openMs: 1000, commentMs: 15_000, lingerMs: 30_000 };

const NDJSON = 'application/x-ndjson';
const EVENTS = 'text/event-stream';
// Many clients accept only this type for every call; they receive NDJSON.
const JSON_LINES = 'application/json';
/** The delay before a client of events reconnects. */
const RETRY_MS = 3000;

interface PendingWrite {
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
}

/**
 * A stream of messages over HTTP: NDJSON, or Server-Sent Events if the client prefers them.
 *
 * The status and headers are sent with the first message. Every stream sends one as soon as it is open (a resume token
 * or the current state), so that an error before that gets its own status. If the handler sends nothing for a second,
 * the stream counts as open; from then on, an error is sent as the last record.
 */
export class StreamResponse {
  private readonly type: typeof NDJSON | typeof EVENTS;
  private readonly pendingWrites = new Set<PendingWrite>();
  private body: PassThrough | undefined;
  private openTimer: NodeJS.Timeout | undefined;
  private commentTimer: NodeJS.Timeout | undefined;
  private endReason: Error | undefined;

  /** Throws not_acceptable if the client accepts neither format. */
  constructor(
    private readonly request: FastifyRequest,
    private readonly reply: FastifyReply,
    private readonly times: StreamTimes,
  ) {
    const type = negotiateType(request.headers.accept, [NDJSON, EVENTS, JSON_LINES]);
    this.type = type === JSON_LINES ? NDJSON : type;
  }

  /** Whether the status has been sent. */
  get isOpen(): boolean {
    return this.body !== undefined;
  }

  /**
   * Called when the handler starts. If it sends nothing within `openMs`, the response starts anyway, so that the client
   * sees that the stream is open.
   */
  startOpenTimer(): void {
    this.openTimer = setTimeout(() => this.openIfNeeded(), this.times.openMs).unref();
  }

  /**
   * Sets the resume token from Last-Event-ID, which a reconnecting client sends. It is newer than the token in the URL.
   */
  applyLastEventId(descriptor: MethodDescriptor, message: Record<string, unknown>): void {
    const lastEventId = this.request.headers['last-event-id'];
    if (
      lastEventId &&
      typeof lastEventId === 'string' &&
      descriptor.request.fields.some(({ name }) => name === 'resume_token')
    )
      message['resumeToken'] = lastEventId;
  }

  /** Writes one message. Resolves when the next one may be written; rejects if the stream has ended. */
  async send(json: string, resumeToken: string | undefined): Promise<void> {
    if (this.endReason) throw this.endReason;
    const body = this.openIfNeeded();
    if (body.write(this.formatRecord(json, resumeToken))) return;
    await new Promise<void>((resolve, reject) => this.pendingWrites.add({ resolve, reject }));
  }

  /** Ends the stream successfully. */
  end(): void {
    this.close(this.openIfNeeded(), '');
  }

  /** Ends the stream with an error as its last record. */
  fail(errorText: string): void {
    this.close(this.openIfNeeded(), this.type === NDJSON ? `${errorText}\n` : `event: error\ndata: ${errorText}\n\n`);
  }

  /** Stops timers and rejects pending writes. `end` or `fail` may still follow. */
  abort(reason: Error): void {
    clearTimeout(this.openTimer);
    clearInterval(this.commentTimer);
    this.endReason ??= reason;
    for (const { reject } of this.pendingWrites) reject(reason);
    this.pendingWrites.clear();
  }

  /** Formats a message as a line of JSON or as an event, with the resume token as its id. */
  private formatRecord(json: string, resumeToken: string | undefined): string {
    if (this.type === NDJSON) return `${json}\n`;
    return `event: message\n${resumeToken ? `id: ${resumeToken}\n` : ''}data: ${json}\n\n`;
  }

  /** Starts the response unless it has started: sends the status and the headers. Returns the body. */
  private openIfNeeded(): PassThrough {
    if (this.body) return this.body;
    clearTimeout(this.openTimer);
    const { reply, type } = this;
    const body = (this.body = new PassThrough());
    body.on('drain', () => this.onDrain());
    // Fastify has set the headers when it starts to read. They are sent without waiting for the first message.
    body.once('resume', () => {
      if (!reply.raw.headersSent && !isClientDisconnected(reply)) reply.raw.flushHeaders();
    });
    reply.raw.once('close', () => this.abort(clientCancelled()));
    addVary(reply, 'accept');
    void reply
      .code(200)
      .header('content-type', type === EVENTS ? `${EVENTS}; charset=utf-8` : type)
      .header('cache-control', 'no-store, no-transform')
      .header('x-accel-buffering', 'no')
      .send(body);
    if (type === EVENTS) {
      body.write(`retry: ${RETRY_MS}\n\n`);
      this.commentTimer = setInterval(() => this.writeComment(body), this.times.commentMs).unref();
    }
    return body;
  }

  /**
   * Writes a comment, which clients ignore, so that proxies do not close an idle stream. Skipped while the client is
   * behind.
   */
  private writeComment(body: PassThrough): void {
    if (!body.writableNeedDrain) body.write(':\n\n');
  }

  /** Resumes the handler when the client has read enough. */
  private onDrain(): void {
    for (const { resolve } of this.pendingWrites) resolve();
    this.pendingWrites.clear();
  }

  /**
   * Writes the last record and ends the response. The connection is closed if the client does not read the end in time.
   */
  private close(body: PassThrough, lastRecord: string): void {
    this.abort(clientCancelled());
    body.end(lastRecord);
    // Otherwise a client that stops reading would keep its connection indefinitely.
    const lingerTimer = setTimeout(() => abortResponse(this.reply), this.times.lingerMs).unref();
    this.reply.raw.once('close', () => clearTimeout(lingerTimer));
  }
}
