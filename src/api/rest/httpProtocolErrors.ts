import { status } from '@grpc/grpc-js';
import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { DomainError } from '../../kernel/errors';
import { toWire, type WireError } from '../errors/errorTable';
import { requestTimeout } from '../pipeline/activeCall';
import { createErrorJson, JSON_TYPE } from './errorResponse';

/**
 * Returns the error that is reported to the client for an error of its connection; undefined if nobody can receive it,
 * because the connection is broken or does not use TLS. The codes `HPE_...` are those of the HTTP parser of Node.js.
 */
export function toClientError({ code = '' }: NodeJS.ErrnoException): DomainError | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return requestTimeout();
  if (code.startsWith('HPE_'))
    return new DomainError('invalid_argument', 'request_malformed', 'this is not a valid HTTP/1.1 request');
  return undefined;
}

/**
 * Responds to data that is not HTTP, too large or too slow and belongs to no request, and closes the connection.
 * Returns the error that was sent.
 */
export function rejectConnection(error: NodeJS.ErrnoException, clientError: DomainError, socket: Duplex): WireError {
  const wire = error.code === 'HPE_HEADER_OVERFLOW' ? headersTooLarge() : toWire(clientError, randomUUID());
  closeWithError(wire, socket);
  return wire;
}

/** Sends an error on an HTTP/1.1 connection and closes it. */
export function closeWithError(wire: WireError, socket: Duplex): void {
  const body = JSON.stringify(createErrorJson(wire));
  const lines = [
    `HTTP/1.1 ${wire.http} ${STATUS_CODES[wire.http]}`,
    'connection: close',
    `content-type: ${JSON_TYPE}`,
    'cache-control: no-store',
    'x-content-type-options: nosniff',
    `x-request-id: ${wire.requestId}`,
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
}

/**
 * Creates the error for an HTTP/1.1 request that does not have exactly one Host header: a proxy could use another one
 * of them than this server.
 */
export function invalidHost(): DomainError {
  return new DomainError(
    'invalid_argument',
    'request_malformed',
    'an HTTP/1.1 request must have exactly one Host header',
  );
}

/** Creates the error for headers that are too many or too large. */
export function headersTooLarge(): WireError {
  return createError(
    status.RESOURCE_EXHAUSTED,
    431,
    'headers_too_large',
    'the request headers are too large: send fewer or shorter headers',
  );
}

/** Creates the error for an unsupported Expect header. */
export function expectationFailed(): WireError {
  return createError(
    status.INVALID_ARGUMENT,
    417,
    'expectation_failed',
    'the Expect header only supports 100-continue: remove it',
  );
}

/** Creates an error of the HTTP protocol, whose status no kind of DomainError has. */
function createError(grpc: status, http: number, reason: string, message: string): WireError {
  return {
    grpc,
    http,
    reason,
    message,
    metadata: {},
    violations: [],
    retryAfterMs: undefined,
    isInDoubt: false,
    requestId: randomUUID(),
    cause: undefined,
  };
}
