import { status } from '@grpc/grpc-js';
import type { FastifyReply } from 'fastify';
import type { WireError } from '../errorTable';

/** The error as REST answers it, and as the last record of a stream (contract.md, section 4). */
export function errorJson(error: WireError): object {
  const { reason, message, requestId } = error;
  return { error: { code: reason, message: message.toWellFormed(), status: status[error.grpc], requestId, details: detailsOf(error) } };
}

/** Answers with an error. */
export function sendError(reply: FastifyReply, error: WireError): void {
  if (error.retryAfterMs !== undefined) void reply.header('retry-after', Math.max(1, Math.ceil(error.retryAfterMs / 1000)));
  if (error.http === 401) void reply.header('www-authenticate', 'ApiKey realm="plantroom"');
  void reply.code(error.http).header('content-type', JSON_TYPE).header('cache-control', 'no-store').send(JSON.stringify(errorJson(error)));
}

/** What every JSON answer is. */
export const JSON_TYPE = 'application/json; charset=utf-8';

function detailsOf(error: WireError): object[] {
  const { reason, metadata, violations, retryAfterMs } = error;
  const details: object[] = [detail('ErrorInfo', { reason, domain: 'plantroom', metadata })];
  if (violations.length > 0) details.push(detail('BadRequest', { fieldViolations: violations.map(({ field, description }) => ({ field, description })) }));
  if (retryAfterMs !== undefined) details.push(detail('RetryInfo', { retryDelay: `${Math.max(0, Math.ceil(retryAfterMs)) / 1000}s` }));
  return details;
}

function detail(name: string, value: object): object {
  return { '@type': `type.googleapis.com/google.rpc.${name}`, ...value };
}
