import type { FastifyReply, FastifyRequest } from 'fastify';
import { PassThrough } from 'node:stream';
import type { MethodFacts } from '../descriptors';
import { callerGone } from '../openCall';
import { preferredType } from './accept';
import { addVary, cut, isGone } from './headers';

/** When a stream does something by itself, in milliseconds. */
export interface StreamTimes {
  /** It opens, though there is no answer yet. */
  readonly openMs: number;
  /** A stream of events shows that it is alive, though it is quiet. */
  readonly commentMs: number;
  /** Its connection is cut when the reader has not taken its end. */
  readonly lingerMs: number;
}

/** The times where nothing else is said. */
export const STREAM_TIMES: StreamTimes = { openMs: 1000, commentMs: 15_000, lingerMs: 30_000 };

const NDJSON = 'application/x-ndjson';
const EVENTS = 'text/event-stream';
// What many clients ask for whatever they call; lines of JSON are near enough.
const JSON_LINES = 'application/json';
/** How long a reader of events waits before it comes again. */
const RETRY_MS = 3000;

interface Waiting {
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
}

/**
 * A stream of answers over HTTP: NDJSON, or Server-Sent Events where the caller likes them better.
 *
 * Status and headers go out with the first answer: every stream of ours has one as soon as it is open (where to resume, or how things
 * stand), so that what keeps it from opening is an error with a status of its own. A handler that has nothing to say for a second is
 * taken for open: from then on an error is the last record.
 */
export class StreamAnswer {
  private readonly type: typeof NDJSON | typeof EVENTS;
  private readonly waiting = new Set<Waiting>();
  private out: PassThrough | undefined;
  private opening: NodeJS.Timeout | undefined;
  private comments: NodeJS.Timeout | undefined;
  private ended: Error | undefined;

  /** Throws not_acceptable when the caller takes neither form. */
  constructor(
    private readonly request: FastifyRequest,
    private readonly reply: FastifyReply,
    private readonly times: StreamTimes,
  ) {
    const type = preferredType(request.headers.accept, [NDJSON, EVENTS, JSON_LINES]);
    this.type = type === JSON_LINES ? NDJSON : type;
  }

  /** Whether the status is out. */
  get isOpen(): boolean {
    return this.out !== undefined;
  }

  /** The handler is at work. */
  begin(): void {
    this.opening = setTimeout(() => this.open(), this.times.openMs).unref();
  }

  /** A reader that comes again says how far it was: what it says here is newer than what stands in its address. */
  takeLastEventId(facts: MethodFacts, message: Record<string, unknown>): void {
    const given = this.request.headers['last-event-id'];
    if (given && typeof given === 'string' && facts.request.fields.some(({ name }) => name === 'resume_token')) message['resumeToken'] = given;
  }

  /** Writes one answer; resolves when the next may follow, rejects when none may any more. */
  async send(json: string, resumeToken: string | undefined): Promise<void> {
    if (this.ended) throw this.ended;
    const out = this.open();
    if (out.write(this.record(json, resumeToken))) return;
    await new Promise<void>((resolve, reject) => this.waiting.add({ resolve, reject }));
  }

  /** The end, in peace. */
  end(): void {
    this.close(this.open(), '');
  }

  /** The end, with an error as its last record. */
  fail(error: string): void {
    this.close(this.open(), this.type === NDJSON ? `${error}\n` : `event: error\ndata: ${error}\n\n`);
  }

  /** Nothing more is waited for; the stream may still be told how it ended. */
  abort(reason: Error): void {
    clearTimeout(this.opening);
    clearInterval(this.comments);
    this.ended ??= reason;
    for (const { reject } of this.waiting) reject(reason);
    this.waiting.clear();
  }

  private record(json: string, resumeToken: string | undefined): string {
    if (this.type === NDJSON) return `${json}\n`;
    return `event: message\n${resumeToken ? `id: ${resumeToken}\n` : ''}data: ${json}\n\n`;
  }

  private open(): PassThrough {
    if (this.out) return this.out;
    clearTimeout(this.opening);
    const { reply, type } = this;
    const out = (this.out = new PassThrough());
    out.on('drain', () => this.onDrain());
    // Fastify has set the headers when it begins to read; they do not wait for the first answer.
    out.once('resume', () => {
      if (!reply.raw.headersSent && !isGone(reply)) reply.raw.flushHeaders();
    });
    reply.raw.once('close', () => this.abort(callerGone()));
    addVary(reply, 'accept');
    void reply.code(200).header('content-type', type === EVENTS ? `${EVENTS}; charset=utf-8` : type).header('cache-control', 'no-store, no-transform').header('x-accel-buffering', 'no').send(out);
    if (type === EVENTS) {
      out.write(`retry: ${RETRY_MS}\n\n`);
      this.comments = setInterval(() => this.comment(out), this.times.commentMs).unref();
    }
    return out;
  }

  private comment(out: PassThrough): void {
    if (!out.writableNeedDrain) out.write(':\n\n');
  }

  private onDrain(): void {
    for (const { resolve } of this.waiting) resolve();
    this.waiting.clear();
  }

  private close(out: PassThrough, last: string): void {
    this.abort(callerGone());
    out.end(last);
    // A reader that takes nothing any more would keep its connection for ever.
    const lingering = setTimeout(() => cut(this.reply), this.times.lingerMs).unref();
    this.reply.raw.once('close', () => clearTimeout(lingering));
  }
}
