import { constants, type Http2ServerResponse } from 'node:http2';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { validationFailed } from '../../kernel/errors';
import { requestIdFrom } from '../requestId';

// As they are without their case, and all that is no letter.
const KEY_NAMES = new Set(['apikey', 'xapikey', 'key', 'token', 'accesstoken', 'authorization']);
// A whole key by itself: signatures and page tokens are random, and hold `plr_` and some letters by chance.
const LIKE_A_KEY = /(?<![\w-])plr_[0-9A-Za-z]{49}(?![\w-])/;

/** Throws validation_failed for a query that carries a key: it would stand in logs, histories and referrers. */
export function refuseKeys(request: FastifyRequest): void {
  for (const [name, value] of request.query as URLSearchParams) {
    const isNamedSo = KEY_NAMES.has(name.toLowerCase().replaceAll(/[^a-z]/g, ''));
    if (!isNamedSo && !LIKE_A_KEY.test(value) && !LIKE_A_KEY.test(name)) continue;
    throw validationFailed([{ field: isNamedSo ? name : '', description: 'a key does not belong in an address, where others can read it; send it in the header X-API-Key, and replace this one' }]);
  }
}

/** Gives the answer the id of its request: the caller's where it is usable, else a new one. */
export function giveRequestId({ headers }: FastifyRequest, reply: FastifyReply): void {
  void reply.header('x-request-id', requestIdFrom(headers['x-request-id']));
}

/** The id that the answer was given. */
export function requestIdOf(reply: FastifyReply): string {
  return String(reply.getHeader('x-request-id'));
}

/** Says that the answer depends on a header of the request, beside those that it depends on already. */
export function addVary(reply: FastifyReply, ...names: readonly string[]): void {
  const known = String(reply.getHeader('vary') ?? '').split(',').map((one) => one.trim()).filter((one) => one !== '');
  void reply.header('vary', [...new Set([...known, ...names])].join(', '));
}

/** Whether nobody is there any more to be answered. */
export function isGone({ raw }: FastifyReply): boolean {
  const { stream } = raw as unknown as Partial<Http2ServerResponse>; // an answer over HTTP/2 does not know it itself
  return stream ? stream.destroyed || stream.closed : raw.destroyed;
}

/** Breaks an answer off, so that the caller cannot take it for a whole one. */
export function cut(reply: FastifyReply): void {
  const { stream } = reply.raw as unknown as Partial<Http2ServerResponse>;
  if (stream) stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  else reply.raw.destroy();
}
