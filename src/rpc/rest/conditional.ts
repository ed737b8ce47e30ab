import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Violation } from '../../kernel/errors';
import type { MethodFacts } from '../descriptors';
import { JSON_TYPE } from './errorAnswer';

/** Answers with JSON. */
export function sendJson(_request: FastifyRequest, reply: FastifyReply, http: number, text: string, _etag: string | undefined): void {
  if (http === 204) void reply.code(http).send();
  else void reply.code(http).header('content-type', JSON_TYPE).send(text);
}

/** Takes If-Match as the etag of the request. */
export function takeIfMatch(request: FastifyRequest, facts: MethodFacts, message: Record<string, unknown>, _found: Violation[]): void {
  const given = request.headers['if-match'];
  if (given && facts.request.fields.some((field) => field.name === 'etag')) message['etag'] ??= given;
}
