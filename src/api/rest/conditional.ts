import type { FastifyReply, FastifyRequest } from 'fastify';
import { hash } from 'node:crypto';
import type { Violation } from '../../kernel/errors';
import type { CachedEncoding } from '../../kernel/cacheableResponse';
import type { MethodDescriptor } from '../descriptors/descriptors';
import { compress, chooseEncoding, type Encoding } from './compression';
import { JSON_TYPE } from './errorResponse';

/** A JSON response: the whole text, or 304 if the client already has it. */
interface JsonResponse {
  readonly http: number;
  readonly text: string;
  /** The value of the ETag header. */
  readonly tag: string | undefined;
  readonly encoding: Encoding | undefined;
  readonly cacheControl: string;
}

/** The text of a response and its record. */
interface ResponseText {
  readonly text: string;
  /** The etag of the record, if the response is one. */
  readonly etag: string | undefined;
  /** Caches the digest of the text for later responses. */
  readonly encoded: CachedEncoding;
}

// Only the client may store the response, and must revalidate it each time, which costs a 304.
const REVALIDATE = 'private, no-cache';
const NO_STORE = 'no-store';

/**
 * Decides on the status, ETag, compression and caching of a response. The ETag of a read consists of the etag of the
 * record and a digest of the text, because the text may change without the record, for example the time when a device
 * was last seen, or signed links. The ETag of a compressed response is weak, because the bytes differ for the same
 * record. Only reads are compressed, so that no response contains a new API key next to text that the client chose
 * (BREACH attack).
 */
export function createJsonResponse(
  request: FastifyRequest,
  { scope }: MethodDescriptor,
  http: number,
  { text, etag, encoded }: ResponseText,
): JsonResponse {
  if (http === 204) return { http, text: '', tag: undefined, encoding: undefined, cacheControl: NO_STORE };
  const { 'accept-encoding': accepted, 'if-none-match': ifNoneMatch } = request.headers;
  if (!isRead(request)) {
    // A method with a read scope can also be called with POST, at its gRPC path.
    const encoding = scope.endsWith(':read') ? chooseEncoding(accepted, text.length) : undefined;
    return {
      http,
      text,
      tag: etag ? computeTag(computeDigest(text), etag, encoding !== undefined) : undefined,
      encoding,
      cacheControl: NO_STORE,
    };
  }
  const encoding = chooseEncoding(accepted, text.length);
  const tag = computeTag((encoded.digest ??= computeDigest(text)), etag, encoding !== undefined);
  return { http: matchesEtag(ifNoneMatch, tag) ? 304 : http, text, tag, encoding, cacheControl: REVALIDATE };
}

/** Sends a JSON response with its headers, compressed if it has an encoding. 204 and 304 have no text. */
export function sendJson(reply: FastifyReply, response: JsonResponse): void {
  const { http, text, tag, encoding, cacheControl } = response;
  void reply.code(http).header('cache-control', cacheControl);
  if (tag !== undefined) void reply.header('etag', tag);
  if (http === 304) {
    sendNotModified(reply);
    return;
  }
  if (http === 204) {
    void reply.send();
    return;
  }
  void reply.header('content-type', JSON_TYPE);
  if (encoding === undefined) {
    void reply.send(text);
    return;
  }
  void reply.header('content-encoding', encoding);
  compress(text, encoding).then(
    (bytes) => reply.send(bytes),
    (error: unknown) => reply.raw.destroy(error as Error),
  );
}

/** Whether If-None-Match contains the tag, or `*`. Weak tags match too (RFC 9110, 13.1.2). */
export function matchesEtag(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch.trim() === '*' || parseTags(ifNoneMatch).includes(getTagText(tag));
}

/**
 * Sets the etag of the request message from If-Match: the part of the tag that is the etag of the record. `W/` is
 * ignored, because proxies that compress add it. `*` matches every version. Appends a violation if the method does not
 * support the condition, because ignoring it could overwrite a change of another client.
 */
export function applyConditionalHeaders(
  request: FastifyRequest,
  { request: { fields } }: MethodDescriptor,
  message: Record<string, unknown>,
  violations: Violation[],
): void {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = request.headers;
  if (ifNoneMatch !== undefined && !isRead(request))
    violations.push({
      field: 'If-None-Match',
      description:
        'is only supported for GET and HEAD: remove it (creating never replaces a record; changes use If-Match)',
    });
  if (ifMatch === undefined || ifMatch.trim() === '*') return;
  if (isRead(request))
    violations.push({ field: 'If-Match', description: 'is only supported for changes: use If-None-Match for a read' });
  else if (!fields.some(({ name }) => name === 'etag'))
    violations.push({
      field: 'If-Match',
      description: 'is not supported by this method, so it cannot prevent lost updates: remove it',
    });
  else setEtag(ifMatch, message, violations);
}

/** Whether the verb of a request is a read. */
function isRead({ method }: FastifyRequest): boolean {
  return method === 'GET' || method === 'HEAD';
}

/**
 * Sets the etag of the request message from If-Match, or appends a violation if the header is invalid, contains several
 * versions or contradicts the body.
 */
function setEtag(ifMatch: string, message: Record<string, unknown>, violations: Violation[]): void {
  // The part of each tag before the digest is the etag of the record, see computeTag.
  const etags = new Set(parseTags(ifMatch).map((tag) => `"${tag.split('.', 1)[0]}"`));
  const [etag] = etags;
  if (etag === undefined)
    violations.push({
      field: 'If-Match',
      description: 'is not a valid ETag: use the ETag that was returned with the record, including its quotes, or *',
    });
  else if (etags.size > 1)
    violations.push({
      field: 'If-Match',
      description: 'contains several versions: use only the ETag of the version to change',
    });
  else if (message['etag'] !== undefined && message['etag'] !== etag)
    violations.push({ field: 'etag', description: 'differs from the If-Match header: send only one of them' });
  else message['etag'] = etag;
}

// An entity tag with its quotes, which may be weak.
const TAG = '(?:W/)?"[\\x21\\x23-\\x7e\\x80-\\xff]*"';
const TAG_LIST = new RegExp(`^[\\s,]*${TAG}(?:\\s*,[\\s,]*${TAG})*[\\s,]*$`);

/** Parses a list of entity tags to their text without quotes and W/; empty if the list is invalid (RFC 9110, 8.8.3). */
function parseTags(list: string): string[] {
  if (!TAG_LIST.test(list)) return [];
  return [...list.matchAll(/"([^"]*)"/g)].map(([, tag = '']) => tag);
}

/** Returns the text of an entity tag: `x` for `"x"` and `W/"x"`. */
function getTagText(tag: string): string {
  return tag.slice(tag.indexOf('"') + 1, -1);
}

/** Returns a digest that identifies a text: 16 characters of base64url. */
export function computeDigest(text: string | Buffer): string {
  return hash('sha256', text, 'base64url').slice(0, 16);
}

/**
 * Returns the ETag of a text with this digest: `"<etag>.<digest>"` if the text represents a record with an `etag`,
 * otherwise `"<digest>"`. A weak ETag has the prefix `W/`: the same content, but not the same bytes.
 */
export function computeTag(digest: string, etag: string | undefined, isWeak: boolean): string {
  const tag = etag ? `${etag.slice(0, -1)}.${digest}"` : `"${digest}"`; // `"3"` becomes `"3.<digest>"`
  return isWeak ? `W/${tag}` : tag;
}

/**
 * Sends 304 without Fastify, which would add `content-length: 0` to the response of a HEAD request: in a 304 response
 * that header means the length of the whole response.
 */
function sendNotModified(reply: FastifyReply): void {
  reply.hijack();
  reply.raw.writeHead(reply.statusCode, reply.getHeaders() as Record<string, string>);
  reply.raw.end();
}
