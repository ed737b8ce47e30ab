import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { faultOf, refuseConnection, requestTimeout } from './malformed';

// The caller ended the connection within a body.
const BROKEN_OFF = 'HPE_INVALID_EOF_STATE';

interface Asked {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/**
 * What is found wrong with a connection after a request began: a body that comes too slowly or in broken pieces is answered in the shape
 * of every error where no answer is on its way yet, and what was asked for before is answered before the connection closes.
 */
export class ConnectionFaults {
  /** The last request of each connection of HTTP/1.1, and each one of HTTP/2. */
  private readonly latest = new WeakMap<object, Asked>();
  /** Connections of which nothing more can be read. */
  private readonly unreadable = new WeakSet<Socket>();

  constructor(
    private readonly log: Logger,
    private readonly answer: (fault: DomainError, request: FastifyRequest, reply: FastifyReply) => void,
  ) {}

  /** A request is here, with its headers. */
  began(request: FastifyRequest, reply: FastifyReply): void {
    this.latest.set(request.raw.httpVersionMajor === 1 ? request.raw.socket : request.raw, { request, reply });
  }

  /** The parser or the clock of node found a fault on a connection of HTTP/1.1. */
  onError(error: NodeJS.ErrnoException, socket: Socket): void {
    const fault = faultOf(error);
    if (!fault || !socket.writable) return void socket.destroy();
    if (this.unreadable.has(socket)) return; // its end is under way
    if (fault.reason === 'request_malformed') this.unreadable.add(socket);
    const asked = this.latest.get(socket);
    if (asked && !asked.request.raw.complete && error.code === BROKEN_OFF) return void socket.destroy();
    if (asked && !isOver(asked)) return this.endAfter(asked, fault, socket);
    const { http, reason, requestId } = refuseConnection(error, fault, socket);
    this.log.info({ http, reason, request_id: requestId, peer: socket.remoteAddress }, 'http.refused');
  }

  /** The body of a request of HTTP/2 comes too slowly. Gives whether it has an answer, or had one. */
  refuseSlow(raw: object): boolean {
    const asked = this.latest.get(raw);
    if (!asked) return false;
    const { request, reply } = asked;
    if (!reply.raw.headersSent) this.answer(requestTimeout(), request, reply);
    return reply.raw.writableEnded;
  }

  private endAfter({ request, reply }: Asked, fault: DomainError, socket: Socket): void {
    const { raw } = reply;
    const isAnswered = raw.writableEnded;
    if (raw.headersSent && !isAnswered) return void socket.destroy(); // an answer without an end, perhaps
    if (!raw.headersSent && this.unreadable.has(socket)) raw.shouldKeepAlive = false;
    if (request.raw.complete) {
      raw.once('close', () => socket.destroySoon());
    } else if (isAnswered) {
      socket.destroySoon();
    } else {
      this.answer(fault, request, reply); // what still comes is forgotten, but not for ever, as after every refusal
    }
  }
}

/** Whether the next byte of the connection belongs to another request. */
function isOver({ request, reply }: Asked): boolean {
  return request.raw.complete && reply.raw.writableFinished;
}
