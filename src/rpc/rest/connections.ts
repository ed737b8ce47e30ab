import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { constants, type Http2SecureServer, type Http2ServerRequest, type ServerHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';
import type { HttpLimits, HttpServer } from './httpLimits';
import { cutUnread } from './unread';

/**
 * The connections of the port: which are idle, which answer, and what node does not end by itself: over HTTP/2 the idle ones and bodies
 * that never end, at the stop those that are idle by then, and all of them when they are cut.
 */
export class Connections {
  private readonly open = new Set<Socket>();
  /** Those in their handshake, by the address of the other side: it is all that the socket before and after it share. */
  private readonly shaking = new Map<string, Socket>();
  /** Those of HTTP/1.1 that have requests whose answer is not out yet, and how many. */
  private readonly answering = new Map<Socket, number>();
  private readonly sessions = new Set<ServerHttp2Session>();
  /** Requests of HTTP/2 whose body is not here yet, and since when. */
  private readonly receiving = new Map<Http2ServerRequest, number>();
  private readonly checks: NodeJS.Timeout;
  private isClosing = false;

  constructor(
    private readonly server: HttpServer,
    private readonly limits: HttpLimits,
    isSecure: boolean,
    /** Answers a request of HTTP/2 whose body comes too slowly. Gives whether it has an answer. */
    private readonly refuseSlow: (request: Http2ServerRequest) => boolean,
  ) {
    server.on(isSecure ? 'secureConnection' : 'connection', (socket: Socket) => this.opened(socket));
    if (isSecure) server.on('connection', (socket: Socket) => this.shakesHands(socket));
    server.on('request', (request: IncomingMessage, response: ServerResponse) => this.asked(request, response));
    (server as Http2SecureServer).on('session', (session) => this.watch(session));
    // node asks this when the server closes. Its own would cut answers that are written, but not out yet.
    (server as Server).closeIdleConnections = () => this.closeIdle();
    this.checks = setInterval(() => this.endSlowBodies(), limits.checkMs).unref();
  }

  /** Ends those that are idle now, and each other one when it is. */
  closeIdle(): void {
    this.isClosing = true;
    for (const socket of this.shaking.values()) socket.destroy();
    for (const socket of this.open) if (!this.answering.has(socket) && !isSession(socket)) socket.destroy();
    for (const { stream } of this.receiving.keys()) if (stream.writableFinished) stream.close();
    for (const session of this.sessions) session.close();
  }

  /** Ends all. */
  cut(): void {
    clearInterval(this.checks);
    for (const socket of [...this.shaking.values(), ...this.open]) socket.destroy();
  }

  private shakesHands(socket: Socket): void {
    const name = nameOf(socket);
    this.shaking.set(name, socket);
    socket.once('close', () => this.shaking.delete(name));
  }

  private opened(socket: Socket): void {
    this.shaking.delete(nameOf(socket));
    if (this.isClosing) return void socket.destroy();
    this.open.add(socket);
    socket.once('close', () => this.open.delete(socket));
  }

  private asked(request: IncomingMessage, response: ServerResponse): void {
    cutUnread(request, response, this.limits.unreadMs);
    if (request.httpVersionMajor === 2) return this.receives(request as unknown as Http2ServerRequest);
    const { socket } = request;
    this.answering.set(socket, (this.answering.get(socket) ?? 0) + 1);
    response.once('close', () => this.answered(request));
  }

  private answered(request: IncomingMessage): void {
    const { socket } = request;
    if (!request.complete && !socket.destroyed) this.forgetRest(request);
    const left = (this.answering.get(socket) ?? 1) - 1;
    if (left > 0) return void this.answering.set(socket, left);
    this.answering.delete(socket);
    if (this.isClosing) socket.destroySoon();
  }

  // A caller that was refused before its body was here reads the answer when it has sent it: to close at once would take that from it.
  private forgetRest(request: IncomingMessage): void {
    const { socket } = request;
    request.resume();
    const lingering = setTimeout(() => request.complete || socket.destroy(), this.limits.lingerMs).unref();
    request.once('close', () => clearTimeout(lingering));
  }

  private watch(session: ServerHttp2Session): void {
    let streams = 0;
    this.sessions.add(session);
    session.once('close', () => this.sessions.delete(session));
    session.on('stream', (stream) => {
      streams += 1;
      stream.once('close', () => (streams -= 1));
    });
    session.setTimeout(this.limits.idleMs, () => {
      if (streams === 0) session.close();
    });
  }

  // node looks after bodies that come too slowly over HTTP/1.1 alone.
  private receives(request: Http2ServerRequest): void {
    if (request.stream.endAfterHeaders) return;
    this.receiving.set(request, performance.now());
    const done = (): void => void this.receiving.delete(request);
    request.once('end', done).once('close', done);
    request.stream.once('finish', () => this.endRest(request));
  }

  /** The answer is out before the body is here: as over HTTP/1.1, what still comes is forgotten, but not for ever. */
  private endRest(request: Http2ServerRequest): void {
    const { stream } = request;
    if (!this.receiving.has(request)) return;
    if (this.isClosing) return stream.close();
    const lingering = setTimeout(() => stream.close(), this.limits.lingerMs).unref();
    stream.once('close', () => clearTimeout(lingering));
  }

  private endSlowBodies(): void {
    const latest = performance.now() - this.limits.requestMs;
    for (const [request, since] of this.receiving) if (since < latest && !this.refuseSlow(request)) request.stream.close(constants.NGHTTP2_CANCEL);
  }
}

function nameOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

function isSession(socket: Socket): boolean {
  return (socket as { alpnProtocol?: string | false }).alpnProtocol === 'h2';
}
