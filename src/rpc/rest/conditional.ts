import type { FastifyReply, FastifyRequest } from 'fastify';
import { hash } from 'node:crypto';
import type { Violation } from '../../kernel/errors';
import type { Encoded } from '../../kernel/repeated';
import type { MethodFacts } from '../descriptors';
import { compressed, encodingFor, type Encoding } from './compression';
import { JSON_TYPE } from './errorAnswer';

/** What of an answer goes out: all of it, or only that the reader has it already (304). */
export interface JsonAnswer {
  readonly http: number;
  readonly text: string;
  /** As the header ETag has it. */
  readonly tag: string | undefined;
  readonly encoding: Encoding | undefined;
  readonly cacheControl: string;
}

/** What an answer says. */
export interface AnswerText {
  readonly text: string;
  /** Of the record in it, if it is one. */
  readonly etag: string | undefined;
  /** Where the digest of the text is kept for the next time. */
  readonly encoded: Encoded;
}

// May be kept by the reader alone, and is asked for again each time: that costs a 304.
const ASK_AGAIN = 'private, no-cache';
const KEEP_NOT = 'no-store';

/**
 * Decides it. The tag of a read is the record's etag and a hash of the text, since the
 * text may change without the record: when a device was last seen, signed links. Compressed, it is weak: the same record in other bytes.
 * Only what is read is compressed, so that no answer has a new key next to what a caller chose (BREACH).
 */
export function jsonAnswer(request: FastifyRequest, { scope }: MethodFacts, http: number, { text, etag, encoded }: AnswerText): JsonAnswer {
  if (http === 204) return { http, text: '', tag: undefined, encoding: undefined, cacheControl: KEEP_NOT };
  const { 'accept-encoding': accepted, 'if-none-match': known } = request.headers;
  if (!isRead(request)) {
    const encoding = scope.endsWith(':read') ? encodingFor(accepted, text.length) : undefined;
    return { http, text, tag: etag ? tagOf(digestOf(text), etag, encoding !== undefined) : undefined, encoding, cacheControl: KEEP_NOT };
  }
  const encoding = encodingFor(accepted, text.length);
  const tag = tagOf((encoded.digest ??= digestOf(text)), etag, encoding !== undefined);
  return { http: knows(known, tag) ? 304 : http, text, tag, encoding, cacheControl: ASK_AGAIN };
}

/** Sends it. */
export function sendJson(reply: FastifyReply, answer: JsonAnswer): void {
  const { http, text, tag, encoding, cacheControl } = answer;
  void reply.code(http).header('cache-control', cacheControl);
  if (tag !== undefined) void reply.header('etag', tag);
  if (http === 304) return sendNothing(reply);
  if (http === 204) return void reply.send();
  void reply.header('content-type', JSON_TYPE);
  if (encoding === undefined) return void reply.send(text);
  void reply.header('content-encoding', encoding);
  compressed(text, encoding).then((bytes) => reply.send(bytes), (error: unknown) => reply.raw.destroy(error as Error));
}

/** Whether an If-None-Match names the tag, or any. Whether tags are weak does not count here (RFC 9110, 13.1.2). */
export function knows(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch.trim() === '*' || tagsIn(ifNoneMatch).includes(opaque(tag));
}

/**
 * Takes If-Match as the etag of the request: the part of the tag that is the record's. `W/` counts not, since proxies that compress put it
 * there. `*` fits whatever there is. Adds a violation for what a method cannot keep: not to look at it could lose somebody's change.
 */
export function takeConditions(request: FastifyRequest, { request: { fields } }: MethodFacts, message: Record<string, unknown>, found: Violation[]): void {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = request.headers;
  if (ifNoneMatch !== undefined && !isRead(request)) found.push({ field: 'If-None-Match', description: 'is for reads with GET; leave it out: creating never replaces what is there, and changes take If-Match' });
  if (ifMatch === undefined || ifMatch.trim() === '*') return;
  if (isRead(request)) found.push({ field: 'If-Match', description: 'is for changes; a read takes If-None-Match' });
  else if (!fields.some(({ name }) => name === 'etag')) found.push({ field: 'If-Match', description: 'is not looked at by this method, which could lose a change of somebody else; leave it out' });
  else takeEtag(ifMatch, message, found);
}

/** Whether it is a read by its verb. */
function isRead({ method }: FastifyRequest): boolean {
  return method === 'GET' || method === 'HEAD';
}

function takeEtag(ifMatch: string, message: Record<string, unknown>, found: Violation[]): void {
  const etags = new Set(tagsIn(ifMatch).map((tag) => `"${tag.split('.', 1)[0]}"`));
  const [etag] = etags;
  if (etag === undefined) found.push({ field: 'If-Match', description: 'is not an etag; give the ETag that was read with the record, with its quotes, or *' });
  else if (etags.size > 1) found.push({ field: 'If-Match', description: 'names several versions; give the one that was read and is changed here' });
  else if (message['etag'] !== undefined && message['etag'] !== etag) found.push({ field: 'etag', description: 'is another one than that of the header If-Match; give it once' });
  else message['etag'] = etag;
}

/** The tags of a list, without quotes and W/. */
function tagsIn(list: string): string[] {
  return [...list.matchAll(/(?:W\/)?"([^"]*)"/g)].map(([, tag = '']) => tag);
}

function opaque(tag: string): string {
  return tag.slice(tag.indexOf('"') + 1, -1);
}

/** What names a text among all others. */
export function digestOf(text: string | Buffer): string {
  return hash('sha256', text, 'base64url').slice(0, 16);
}

/** The tag of a text with this digest; `etag` that of the record that it shows. */
export function tagOf(digest: string, etag: string | undefined, isWeak: boolean): string {
  const tag = etag ? `${etag.slice(0, -1)}.${digest}"` : `"${digest}"`;
  return isWeak ? `W/${tag}` : tag;
}

// fastify gives an answer to HEAD a length, which is 0 here; that of a 304 would be the length of what it stands for.
function sendNothing(reply: FastifyReply): void {
  reply.hijack();
  reply.raw.writeHead(reply.statusCode, reply.getHeaders() as Record<string, string>);
  reply.raw.end();
}
