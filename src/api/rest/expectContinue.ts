import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Http2SecureServer } from 'node:http2';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Responses whose client waits for 100 Continue, and whether the connection may then be kept alive. */
const keepAliveByPendingResponse = new WeakMap<object, boolean>();

/** Requests with an unsupported Expect header. */
const unsupportedExpectations = new WeakSet<object>();

/**
 * Lets clients that send `Expect: 100-continue` wait with their body until `sendContinue`; Node.js would let all of
 * them continue immediately. Requests with another expectation are passed on, so that they can be rejected.
 */
export function deferContinue(server: Server | Http2SecureServer): void {
  (server as Server).on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    keepAliveByPendingResponse.set(response, response.shouldKeepAlive);
    // A rejected client may or may not send its body, so the next bytes of the connection could be either a body or a
    // request.
    if (request.httpVersionMajor === 1) response.shouldKeepAlive = false;
    server.emit('request', request, response);
  });
  (server as Server).on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    unsupportedExpectations.add(request);
    server.emit('request', request, response);
  });
}

/** Returns whether the request has an unsupported Expect header. */
export function hasUnsupportedExpectation({ raw }: FastifyRequest): boolean {
  return unsupportedExpectations.has(raw);
}

/**
 * Tells a waiting client to send its body. The next bytes are then the body, so the connection may be kept alive again.
 * Does nothing if the client does not wait.
 */
export function sendContinue({ raw }: FastifyReply): void {
  const canKeepAlive = keepAliveByPendingResponse.get(raw);
  if (canKeepAlive === undefined) return;
  keepAliveByPendingResponse.delete(raw);
  raw.shouldKeepAlive = canKeepAlive;
  raw.writeContinue();
}
