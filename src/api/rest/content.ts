import type { FastifyReply, FastifyRequest } from 'fastify';
import { Readable } from 'node:stream';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import parseRanges from 'range-parser';
import { DomainError } from '../../kernel/errors';
import type { Content } from '../pipeline/handlers';
import { clientCancelled } from '../pipeline/activeCall';
import { matchesEtag } from './conditional';
import { abortResponse, isClientDisconnected } from './headers';

/** The requested part of the content, and the status of the response. */
interface ContentRange {
  readonly http: 200 | 206 | 304;
  readonly start: number;
  /** The position after the last byte. */
  readonly end: number;
}

/** Headers for untrusted content: a browser uses the declared type and runs no scripts in it. */
const CONTENT_HEADERS = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
  'cache-control': 'private, max-age=3600',
};

/**
 * Responds with content: all of it, a range, or 304 if the client already has it. Resolves with the status when all
 * bytes are written. Rejects if the content cannot be read (a response that has started is aborted) or if the client
 * disconnected. Throws range_not_satisfiable.
 */
export async function sendContent(request: FastifyRequest, reply: FastifyReply, content: Content): Promise<number> {
  const range = getContentRange(request, content, reply);
  const { http, start, end } = range;
  if (http === 304 || request.method === 'HEAD') {
    setHeaders(reply, content, range);
    void reply.send();
    return http;
  }
  const pieces = content.read(start, end)[Symbol.asyncIterator]();
  const firstPiece = end > start ? await pieces.next() : END; // if nothing can be read, the error still gets a status
  const hasOtherResponse = reply.sent; // an error response may have been sent in the meantime
  if (isClientDisconnected(reply) || hasOtherResponse) {
    await pieces.return?.();
    throw clientCancelled();
  }
  setHeaders(reply, content, range);
  await new Promise<void>((resolve, reject) => {
    const body = Readable.from(readExactly(end - start, firstPiece, pieces, resolve, reject), { objectMode: false });
    body.once('close', () => {
      // `readExactly` cannot do it: the finally block of a generator that never started does not run.
      pieces.return?.().catch(() => {});
      reject(clientCancelled()); // no effect if the promise is settled; otherwise the client disconnected
    });
    void reply.send(body);
  });
  return http;

  /** Yields the pieces; fails if their total size is not `size`. */
  async function* readExactly(
    size: number,
    first: IteratorResult<Uint8Array>,
    laterPieces: AsyncIterator<Uint8Array>,
    onComplete: () => void,
    onFailure: (error: unknown) => void,
  ): AsyncGenerator<Uint8Array> {
    let remainingBytes = size;
    try {
      for (let piece = first; piece.done !== true; piece = await laterPieces.next()) {
        remainingBytes -= piece.value.length;
        if (remainingBytes < 0) break;
        yield piece.value;
      }
      if (remainingBytes !== 0)
        throw new Error(
          `the content must have ${size} bytes, but has ${remainingBytes < 0 ? 'more' : size - remainingBytes}`,
        );
      onComplete();
    } catch (error) {
      onFailure(error);
      await yieldToEventLoop(); // the caller handles the rejection before the connection closes
      abortResponse(reply); // so that the client detects the incomplete content
    }
  }
}

const END: IteratorResult<Uint8Array> = { done: true, value: undefined };

/** Returns the part of the content that the request asks for, and the status: 304 for nothing, 206 for a range. */
function getContentRange({ method, headers }: FastifyRequest, content: Content, reply: FastifyReply): ContentRange {
  const complete: ContentRange = { http: 200, start: 0, end: content.sizeBytes };
  if (isNotModified(headers['if-none-match'], headers['if-modified-since'], content)) return { ...complete, http: 304 };
  if (method !== 'GET' || headers.range === undefined || !matchesIfRange(headers['if-range'], content)) return complete;
  return parseRange(headers.range, content.sizeBytes, reply) ?? complete;
}

// The results of range-parser for a header without usable ranges.
const UNSATISFIABLE = -1;
const MALFORMED = -2;

/**
 * Parses the Range header. Returns undefined for a unit other than bytes, which must be ignored, and for several
 * ranges, to which a server may respond with the whole content (RFC 9110, 14.2).
 */
function parseRange(header: string, sizeBytes: number, reply: FastifyReply): ContentRange | undefined {
  if (!header.startsWith('bytes=')) return undefined;
  const ranges = parseRanges(sizeBytes, header, { combine: true });
  if (ranges === UNSATISFIABLE) {
    void reply.header('content-range', `bytes */${sizeBytes}`);
    throw new DomainError(
      'range_not_satisfiable',
      'range_not_satisfiable',
      `the range is outside the content, which has ${sizeBytes} bytes: request a range within it`,
    );
  }
  if (ranges === MALFORMED || ranges.length > 1) return undefined;
  const [range] = ranges;
  return range && { http: 206, start: range.start, end: range.end + 1 };
}

/**
 * Whether the client already has this version of the content. If-None-Match takes precedence over If-Modified-Since.
 */
function isNotModified(
  ifNoneMatch: string | undefined,
  ifModifiedSince: string | undefined,
  content: Content,
): boolean {
  if (ifNoneMatch !== undefined) return matchesEtag(ifNoneMatch, formatEtag(content));
  return ifModifiedSince !== undefined && getLastModifiedSeconds(content) <= Date.parse(ifModifiedSince) / 1000;
}

/**
 * Whether If-Range is absent or matches the current content. It contains the version of which the client has a part, as
 * an ETag or a date; for another version the client needs the whole content.
 */
function matchesIfRange(ifRange: string | string[] | undefined, content: Content): boolean {
  if (ifRange === undefined) return true;
  return ifRange === formatEtag(content) || getLastModifiedSeconds(content) === Date.parse(String(ifRange)) / 1000;
}

/** Sets the status and the headers of the response. */
function setHeaders(reply: FastifyReply, content: Content, { http, start, end }: ContentRange): void {
  void reply
    .code(http)
    .headers(CONTENT_HEADERS)
    .headers({
      etag: formatEtag(content),
      'last-modified': new Date(content.lastModified).toUTCString(),
      'accept-ranges': 'bytes',
    });
  if (http === 304) return;
  void reply.headers({
    'content-type': content.contentType,
    'content-length': String(end - start),
    'content-disposition': getDisposition(content.filename),
  });
  if (http === 206) void reply.header('content-range', `bytes ${start}-${end - 1}/${content.sizeBytes}`);
}

function formatEtag({ etag }: Content): string {
  return `"${etag}"`;
}

function getLastModifiedSeconds({ lastModified }: Content): number {
  return Math.floor(lastModified / 1000);
}

/**
 * Returns the Content-Disposition header: the content is shown inline and saved under its name. The name is sent in
 * ASCII, for all clients, and in UTF-8.
 */
function getDisposition(filename: string): string {
  if (filename === '') return 'inline';
  // encodeURIComponent leaves these characters unchanged, but the header does not allow them.
  const encodedName = encodeURIComponent(filename.toWellFormed()).replaceAll(
    /['()*]/g,
    (char) => `%${char.codePointAt(0)?.toString(16).toUpperCase()}`,
  );
  const asciiName = filename.replaceAll(/[^\x20-\x7e]|["\\%]/gu, '_');
  return `inline; filename="${asciiName}"; filename*=UTF-8''${encodedName}`;
}
