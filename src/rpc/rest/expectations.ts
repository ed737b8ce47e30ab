import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Http2SecureServer } from 'node:http2';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Who waits to be told to go on, and whether the connection is to be kept then. */
const waiting = new WeakMap<object, boolean>();

/** Who expects something else. */
const unmet = new WeakSet<object>();

/** Lets callers that ask first (`Expect: 100-continue`) wait with their body until `sendContinue`: node by itself would tell everybody to go on. Who expects something else is a request like another, to be refused. */
export function holdBodies(server: Server | Http2SecureServer): void {
  (server as Server).on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    waiting.set(response, response.shouldKeepAlive);
    // A caller that is refused sends no body, or sends it all the same: what comes next on the connection could be either.
    if (request.httpVersionMajor === 1) response.shouldKeepAlive = false;
    server.emit('request', request, response);
  });
  (server as Server).on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    unmet.add(request);
    server.emit('request', request, response);
  });
}

/** Whether the caller expects what is not done here. */
export function expectsOther({ raw }: FastifyRequest): boolean {
  return unmet.has(raw);
}

/** The body is wanted. */
export function sendContinue({ raw }: FastifyReply): void {
  const isKept = waiting.get(raw);
  if (isKept === undefined) return;
  waiting.delete(raw);
  raw.shouldKeepAlive = isKept;
  raw.writeContinue();
}
