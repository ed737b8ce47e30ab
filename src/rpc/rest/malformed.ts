import { status } from '@grpc/grpc-js';
import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { WireError } from '../errorTable';
import { errorJson, JSON_TYPE } from './errorAnswer';

/** What is no HTTP, too large or too slow is answered in the shape of every error where that is still possible, and the connection closed. Gives what was answered. */
export function refuseMalformed(error: NodeJS.ErrnoException, socket: Socket, isAnswering: boolean): WireError | undefined {
  const wire = wireOf(error);
  if (!wire || isAnswering || !socket.writable) {
    socket.destroy();
    return undefined;
  }
  const body = JSON.stringify(errorJson(wire));
  const lines = [`HTTP/1.1 ${wire.http} ${STATUS_CODES[wire.http]}`, 'connection: close', `content-type: ${JSON_TYPE}`, 'cache-control: no-store', 'x-content-type-options: nosniff', `x-request-id: ${wire.requestId}`, `content-length: ${Buffer.byteLength(body)}`];
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
  return wire;
}

/** Undefined where there is nobody to tell: the connection broke, or it was none of TLS. */
function wireOf({ code = '' }: NodeJS.ErrnoException): WireError | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return wireError(status.DEADLINE_EXCEEDED, 408, 'request_timeout', 'the request did not come whole within the time for it; send it quicker, or in parts');
  if (code === 'HPE_HEADER_OVERFLOW') return headersTooLarge();
  if (code.startsWith('HPE_')) return wireError(status.INVALID_ARGUMENT, 400, 'request_malformed', 'this is not a request of HTTP/1.1; send one');
  return undefined;
}

/** The headers are too many, or too large. */
export function headersTooLarge(): WireError {
  return wireError(status.RESOURCE_EXHAUSTED, 431, 'headers_too_large', 'the headers of the request are too large; send fewer and shorter ones');
}

function wireError(grpc: status, http: number, reason: string, message: string): WireError {
  return { grpc, http, reason, message, metadata: {}, violations: [], retryAfterMs: undefined, requestId: randomUUID(), cause: undefined };
}
