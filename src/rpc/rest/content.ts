import type { FastifyReply, FastifyRequest } from 'fastify';
import { Readable } from 'node:stream';
import { setImmediate as whoAsksIsTold } from 'node:timers/promises';
import parseRanges from 'range-parser';
import { DomainError } from '../../kernel/errors';
import type { Content } from '../handlers';
import { callerGone } from '../openCall';
import { knows } from './conditional';
import { cut, isGone } from './headers';

/** The part of a content that is asked for. */
interface Portion {
  readonly http: 200 | 206 | 304;
  readonly start: number;
  /** The byte after the last. */
  readonly end: number;
}

/** Bytes of strangers: a browser shows what they are said to be, and runs nothing of them. */
const SAFE = { 'x-content-type-options': 'nosniff', 'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox", 'cache-control': 'private, max-age=3600' };

/**
 * Answers with content: all of it, a range, or only that the reader has it already. Resolves with the status when all has been handed
 * over; rejects when it could not be read (then the answer is broken off, unless nothing of it was out) or the caller went away.
 * Throws range_not_satisfiable.
 */
export async function sendContent(request: FastifyRequest, reply: FastifyReply, content: Content): Promise<number> {
  const portion = portionOf(request, content, reply);
  const { http, start, end } = portion;
  if (http === 304 || request.method === 'HEAD') {
    setHeaders(reply, content, portion);
    void reply.send();
    return http;
  }
  const pieces = content.read(start, end)[Symbol.asyncIterator]();
  const first = end > start ? await pieces.next() : END; // what cannot be read at all is an error with a status
  if (isGone(reply) || reply.sent) { // or it was told meanwhile why it gets nothing
    await pieces.return?.();
    throw callerGone();
  }
  setHeaders(reply, content, portion);
  await new Promise<void>((resolve, reject) => {
    const body = Readable.from(exactly(end - start, first, pieces, resolve, reject), { objectMode: false });
    body.once('close', () => {
      pieces.return?.().catch(() => {}); // all is said by then; `exactly` cannot do it: one that was never begun has no end
      reject(callerGone()); // it came too late, unless the caller went away
    });
    void reply.send(body);
  });
  return http;

  /** The pieces, which must be so many bytes together. */
  async function* exactly(size: number, head: IteratorResult<Uint8Array>, rest: AsyncIterator<Uint8Array>, done: () => void, failed: (error: unknown) => void): AsyncGenerator<Uint8Array> {
    let left = size;
    try {
      for (let piece = head; piece.done !== true; piece = await rest.next()) {
        left -= piece.value.length;
        if (left < 0) break;
        yield piece.value;
      }
      if (left !== 0) throw new Error(`the content was to have ${size} bytes, and had ${left < 0 ? 'more' : size - left}`);
      done();
    } catch (error) {
      failed(error);
      await whoAsksIsTold();
      cut(reply); // the reader cannot take it for all
    }
  }
}

const END: IteratorResult<Uint8Array> = { done: true, value: undefined };

function portionOf({ method, headers }: FastifyRequest, content: Content, reply: FastifyReply): Portion {
  const whole: Portion = { http: 200, start: 0, end: content.sizeBytes };
  if (isKnown(headers['if-none-match'], headers['if-modified-since'], content)) return { ...whole, http: 304 };
  if (method !== 'GET' || headers.range === undefined || !isSame(headers['if-range'], content)) return whole;
  return rangeOf(headers.range, content.sizeBytes, reply) ?? whole;
}

/** Undefined for what is no range of bytes, which is to be passed over, and for several at once, which may be answered by the whole (RFC 9110, 14.2). */
function rangeOf(wanted: string, sizeBytes: number, reply: FastifyReply): Portion | undefined {
  if (!wanted.startsWith('bytes=')) return undefined;
  const ranges = parseRanges(sizeBytes, wanted, { combine: true });
  if (ranges === -1) {
    void reply.header('content-range', `bytes */${sizeBytes}`);
    throw new DomainError('range_not_satisfiable', 'range_not_satisfiable', `the range lies beyond the content, which has ${sizeBytes} bytes; ask for bytes from 0 on`);
  }
  if (ranges === -2 || ranges.length > 1) return undefined;
  const [range] = ranges;
  return range && { http: 206, start: range.start, end: range.end + 1 };
}

function isKnown(ifNoneMatch: string | undefined, ifModifiedSince: string | undefined, content: Content): boolean {
  if (ifNoneMatch !== undefined) return knows(ifNoneMatch, tagOf(content));
  return ifModifiedSince !== undefined && secondsOf(content) <= Date.parse(ifModifiedSince) / 1000;
}

/** Whether If-Range means what is there now. */
function isSame(ifRange: string | string[] | undefined, content: Content): boolean {
  if (ifRange === undefined) return true;
  return ifRange === tagOf(content) || secondsOf(content) === Date.parse(String(ifRange)) / 1000;
}

function setHeaders(reply: FastifyReply, content: Content, { http, start, end }: Portion): void {
  void reply.code(http).headers(SAFE).headers({ etag: tagOf(content), 'last-modified': new Date(content.lastModified).toUTCString(), 'accept-ranges': 'bytes' });
  if (http === 304) return;
  void reply.headers({ 'content-type': content.contentType, 'content-length': String(end - start), 'content-disposition': dispositionOf(content.filename) });
  if (http === 206) void reply.header('content-range', `bytes ${start}-${end - 1}/${content.sizeBytes}`);
}

function tagOf({ etag }: Content): string {
  return `"${etag}"`;
}

function secondsOf({ lastModified }: Content): number {
  return Math.floor(lastModified / 1000);
}

/** Shown in the page; saved by its name, in the words that every client reads and in those of all languages. */
function dispositionOf(filename: string): string {
  if (filename === '') return 'inline';
  const encoded = encodeURIComponent(filename.toWellFormed()).replaceAll(/['()*]/g, (char) => `%${char.codePointAt(0)?.toString(16).toUpperCase()}`);
  return `inline; filename="${filename.replaceAll(/[^\x20-\x7e]|["\\%]/gu, '_')}"; filename*=UTF-8''${encoded}`;
}
