import { status } from '@grpc/grpc-js';
import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
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
export function refuseConnection(error: NodeJS.ErrnoException, fault: DomainError, socket: Duplex): WireError {
  const wire = error.code === 'HPE_HEADER_OVERFLOW' ? headersTooLarge() : toWire(fault, randomUUID());
  endWith(wire, socket);
  return wire;
}

/** Ends a connection of HTTP/1.1 with an error. */
export function endWith(wire: WireError, socket: Duplex): void {
  const body = JSON.stringify(errorJson(wire));
  const lines = [`HTTP/1.1 ${wire.http} ${STATUS_CODES[wire.http]}`, 'connection: close', `content-type: ${JSON_TYPE}`, 'cache-control: no-store', 'x-content-type-options: nosniff', `x-request-id: ${wire.requestId}`, `content-length: ${Buffer.byteLength(body)}`];
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
}

/** A request of HTTP/1.1 that does not say once for which host it is: two servers on its way could understand it differently. */
export function hostUnclear(): DomainError {
  return new DomainError('invalid_argument', 'request_malformed', 'a request of HTTP/1.1 names its host in one header Host; send one');
}

/** The headers are too many, or too large. */
export function headersTooLarge(): WireError {
  return refusal(status.RESOURCE_EXHAUSTED, 431, 'headers_too_large', 'the headers of the request are too large; send fewer and shorter ones');
}

/** The caller expects something that is not done here. */
export function expectationFailed(): WireError {
  return refusal(status.INVALID_ARGUMENT, 417, 'expectation_failed', 'nothing can be expected here but 100-continue; leave the header Expect out');
}

function refusal(grpc: status, http: number, reason: string, message: string): WireError {
  return { grpc, http, reason, message, metadata: {}, violations: [], retryAfterMs: undefined, isInDoubt: false, requestId: randomUUID(), cause: undefined };
}
