import { status } from '@grpc/grpc-js';
import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { DomainError } from '../../kernel/errors';
import { toWire, type WireError } from '../errorTable';
import { errorJson, JSON_TYPE } from './errorAnswer';

/** What a caller is told of a fault of its connection. Undefined where there is nobody to tell: the connection broke, or it was none of TLS. */
export function faultOf({ code = '' }: NodeJS.ErrnoException): DomainError | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return requestTimeout();
  if (code.startsWith('HPE_')) return new DomainError('invalid_argument', 'request_malformed', 'this is not a request of HTTP/1.1; send one');
  return undefined;
}

/** The request did not come whole in time. */
export function requestTimeout(): DomainError {
  return new DomainError('request_timeout', 'request_timeout', 'the request did not come whole within the time for it; send it quicker, or in parts');
}

/** Answers what is no HTTP, too large or too slow where there is no request that an answer could belong to, and closes the connection. Gives what was answered. */
export function refuseConnection(error: NodeJS.ErrnoException, fault: DomainError, socket: Socket): WireError {
  const wire = error.code === 'HPE_HEADER_OVERFLOW' ? headersTooLarge() : toWire(fault, randomUUID());
  const body = JSON.stringify(errorJson(wire));
  const lines = [`HTTP/1.1 ${wire.http} ${STATUS_CODES[wire.http]}`, 'connection: close', `content-type: ${JSON_TYPE}`, 'cache-control: no-store', 'x-content-type-options: nosniff', `x-request-id: ${wire.requestId}`, `content-length: ${Buffer.byteLength(body)}`];
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
  return wire;
}

/** The headers are too many, or too large. */
export function headersTooLarge(): WireError {
  return { grpc: status.RESOURCE_EXHAUSTED, http: 431, reason: 'headers_too_large', message: 'the headers of the request are too large; send fewer and shorter ones', metadata: {}, violations: [], retryAfterMs: undefined, requestId: randomUUID(), cause: undefined };
}
