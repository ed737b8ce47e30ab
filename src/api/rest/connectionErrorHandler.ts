import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { requestTimeout } from '../pipeline/activeCall';
import { toClientError, rejectConnection } from './httpProtocolErrors';

// The client closed the connection within a body.
const UNEXPECTED_END = 'HPE_INVALID_EOF_STATE';

interface TrackedRequest {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/**
 * Handles errors of a connection after a request started. A body that is too slow or malformed gets a normal error
 * response unless a response has started. Earlier requests get their response before the connection closes.
 */
export class ConnectionErrorHandler {
  /** The last request of each HTTP/1.1 connection, by its socket, and each HTTP/2 request, by its raw request. */
  private readonly requestBySocketOrRaw = new WeakMap<object, TrackedRequest>();
  /** Connections from which no further request can be read. */
  private readonly unreadableSockets = new WeakSet<Socket>();

  constructor(
    private readonly log: Logger,
    private readonly sendError: (error: DomainError, request: FastifyRequest, reply: FastifyReply) => void,
  ) {}

  /** Called when the headers of a request have arrived. */
  trackRequest(request: FastifyRequest, reply: FastifyReply): void {
    this.requestBySocketOrRaw.set(request.raw.httpVersionMajor === 1 ? request.raw.socket : request.raw, {
      request,
      reply,
    });
  }

  /**
   * Called when Node.js finds a parse error or a timeout on an HTTP/1.1 connection. The error belongs to the last
   * request if that is not complete; otherwise to bytes that are not a request, which get an error response of their
   * own.
   */
  onError(error: NodeJS.ErrnoException, socket: Socket): void {
    const clientError = toClientError(error);
    if (!clientError || !socket.writable) {
      socket.destroy();
      return;
    }
    if (this.unreadableSockets.has(socket)) return; // it is already being closed
    if (clientError.reason === 'request_malformed') this.unreadableSockets.add(socket);
    const tracked = this.requestBySocketOrRaw.get(socket);
    if (tracked && !tracked.request.raw.complete && error.code === UNEXPECTED_END) {
      socket.destroy(); // the client closed the connection within a body, so it reads no response
      return;
    }
    if (tracked && !isComplete(tracked)) {
      this.closeAfter(tracked, clientError, socket);
      return;
    }
    const { http, reason, requestId } = rejectConnection(error, clientError, socket);
    this.log.info({ http, reason, request_id: requestId, peer: socket.remoteAddress }, 'http.rejected');
  }

  /** Rejects an HTTP/2 request whose body is too slow. Returns whether a response was sent completely. */
  rejectSlowBody(raw: object): boolean {
    const tracked = this.requestBySocketOrRaw.get(raw);
    if (!tracked) return false;
    const { request, reply } = tracked;
    if (!reply.raw.headersSent) this.sendError(requestTimeout(), request, reply);
    return reply.raw.writableEnded;
  }

  /**
   * Reports an error to the client of an unfinished request, if that is still possible, and closes the connection after
   * the response.
   */
  private closeAfter({ request, reply }: TrackedRequest, clientError: DomainError, socket: Socket): void {
    const { raw } = reply;
    const isResponseSent = raw.writableEnded;
    if (raw.headersSent && !isResponseSent) {
      socket.destroy(); // the response might never end
      return;
    }
    if (!raw.headersSent && this.unreadableSockets.has(socket)) raw.shouldKeepAlive = false;
    if (request.raw.complete) {
      raw.once('close', () => socket.destroySoon()); // the invalid bytes came after this request
    } else if (isResponseSent) {
      socket.destroySoon(); // the response was sent before the body was complete
    } else {
      // The rest of the body is discarded for a limited time, as after every rejection.
      this.sendError(clientError, request, reply);
    }
  }
}

/**
 * Whether a request and its response are complete, so that the next byte of the connection belongs to another request.
 */
function isComplete({ request, reply }: TrackedRequest): boolean {
  return request.raw.complete && reply.raw.writableFinished;
}
