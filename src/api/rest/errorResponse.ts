import { status } from '@grpc/grpc-js';
import type { FastifyReply } from 'fastify';
import type { WireError } from '../errors/errorTable';

/** Creates the JSON of an error in a response or in the last record of a stream (docs/rest.md, Errors). */
export function createErrorJson(error: WireError): object {
  const { reason, message, requestId } = error;
  return {
    error: {
      code: reason,
      message: message.toWellFormed(),
      status: status[error.grpc],
      requestId,
      details: createDetails(error),
    },
  };
}

/** Responds with an error. Retry-After contains whole seconds, at least 1. */
export function sendError(reply: FastifyReply, error: WireError): void {
  if (error.retryAfterMs !== undefined)
    void reply.header('retry-after', Math.max(1, Math.ceil(error.retryAfterMs / 1000)));
  if (error.http === 401) void reply.header('www-authenticate', 'ApiKey realm="plantroom"');
  void reply
    .code(error.http)
    .header('content-type', JSON_TYPE)
    .header('cache-control', 'no-store')
    .send(JSON.stringify(createErrorJson(error)));
}

/** The Content-Type of JSON responses. */
export const JSON_TYPE = 'application/json; charset=utf-8';

/**
 * Creates the details of an error for programs, in the JSON form of the google.rpc messages: ErrorInfo, and BadRequest
 * (the violations) and RetryInfo (a Duration such as `1.5s`) if applicable.
 */
function createDetails(error: WireError): object[] {
  const { reason, metadata, violations, retryAfterMs } = error;
  const details: object[] = [createDetail('ErrorInfo', { reason, domain: 'plantroom', metadata })];
  if (violations.length > 0)
    details.push(
      createDetail('BadRequest', {
        fieldViolations: violations.map(({ field, description }) => ({ field, description })),
      }),
    );
  if (retryAfterMs !== undefined)
    details.push(createDetail('RetryInfo', { retryDelay: `${Math.max(0, Math.ceil(retryAfterMs)) / 1000}s` }));
  return details;
}

/** Creates the JSON of a google.rpc message; `@type` tells clients its type, as in google.protobuf.Any. */
function createDetail(name: string, value: object): object {
  return { '@type': `type.googleapis.com/google.rpc.${name}`, ...value };
}
