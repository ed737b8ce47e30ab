import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { constants, type Http2SecureServer, type Http2ServerRequest, type ServerHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';
import type { HttpLimits, HttpServer } from './httpLimits';
import { destroySlowReader } from './slowReader';

/**
 * Tracks the connections of the server and closes those that Node.js does not close: idle HTTP/2 connections and HTTP/2
 * requests whose body never ends; at shutdown connections as they become idle, and finally all connections.
 */
export class ClientSockets {
  private readonly openSockets = new Set<Socket>();
  /**
   * Connections in the TLS handshake, by the address of the peer: the sockets before and after the handshake have
   * nothing else in common.
   */
  private readonly handshakeByPeer = new Map<string, Socket>();
  /** HTTP/1.1 connections with their number of requests whose response is not complete. */
  private readonly pendingResponsesBySocket = new Map<Socket, number>();
  private readonly sessions = new Set<ServerHttp2Session>();
  /** HTTP/2 requests whose body is not complete, with their start time. */
  private readonly bodyStartByRequest = new Map<Http2ServerRequest, number>();
  private readonly checkTimer: NodeJS.Timeout;
  private isClosing = false;

  constructor(
    private readonly server: HttpServer,
    private readonly limits: HttpLimits,
    isSecure: boolean,
    /** Rejects an HTTP/2 request whose body is too slow. Returns whether it has a response. */
    private readonly rejectSlowBody: (request: Http2ServerRequest) => boolean,
  ) {
    server.on(isSecure ? 'secureConnection' : 'connection', (socket: Socket) => this.onOpen(socket));
    if (isSecure) server.on('connection', (socket: Socket) => this.trackHandshake(socket));
    server.on('request', (request: IncomingMessage, response: ServerResponse) => this.onRequest(request, response));
    (server as Http2SecureServer).on('session', (session) => this.trackSession(session));
    // Node.js calls this when the server closes. The built-in function would cut off responses that are not fully sent.
    (server as Server).closeIdleConnections = () => this.closeIdle();
    this.checkTimer = setInterval(() => this.rejectSlowBodies(), limits.checkMs).unref();
  }

  /**
   * Closes the idle connections, and the others as soon as they are idle. HTTP/2 sessions close themselves after their
   * last stream; a stream that has its response and only discards the rest of the body is closed now.
   */
  closeIdle(): void {
    this.isClosing = true;
    for (const socket of this.handshakeByPeer.values()) socket.destroy();
    for (const socket of this.openSockets)
      if (!this.pendingResponsesBySocket.has(socket) && !isHttp2(socket)) socket.destroy();
    for (const { stream } of this.bodyStartByRequest.keys()) if (stream.writableFinished) stream.close();
    for (const session of this.sessions) session.close();
  }

  /** Closes all connections immediately. */
  destroyAll(): void {
    clearInterval(this.checkTimer);
    for (const socket of [...this.handshakeByPeer.values(), ...this.openSockets]) socket.destroy();
  }

  /** Tracks a TCP socket until its TLS handshake is complete, so that a shutdown can close it. */
  private trackHandshake(socket: Socket): void {
    const peer = formatPeer(socket);
    this.handshakeByPeer.set(peer, socket);
    socket.once('close', () => this.handshakeByPeer.delete(peer));
  }

  /** Tracks a socket that can carry requests. During a shutdown it is closed immediately. */
  private onOpen(socket: Socket): void {
    this.handshakeByPeer.delete(formatPeer(socket));
    if (this.isClosing) {
      socket.destroy();
      return;
    }
    this.openSockets.add(socket);
    socket.once('close', () => this.openSockets.delete(socket));
  }

  /**
   * Limits the time for a response that the client does not read, and counts the pending responses of an HTTP/1.1
   * connection.
   */
  private onRequest(request: IncomingMessage, response: ServerResponse): void {
    destroySlowReader(request, response, this.limits.unreadMs);
    if (request.httpVersionMajor === 2) return this.trackBody(request as unknown as Http2ServerRequest);
    const { socket } = request;
    this.pendingResponsesBySocket.set(socket, (this.pendingResponsesBySocket.get(socket) ?? 0) + 1);
    response.once('close', () => this.onResponseClosed(request));
  }

  /** Counts down the pending responses of a connection; during a shutdown closes the connection after the last one. */
  private onResponseClosed(request: IncomingMessage): void {
    const { socket } = request;
    if (!request.complete && !socket.destroyed) this.discardBody(request);
    const remaining = (this.pendingResponsesBySocket.get(socket) ?? 1) - 1;
    if (remaining > 0) {
      this.pendingResponsesBySocket.set(socket, remaining);
      return;
    }
    this.pendingResponsesBySocket.delete(socket);
    if (this.isClosing) socket.destroySoon();
  }

  /**
   * Reads and discards the rest of a body for a limited time. A client that was rejected early reads the response only
   * after it has sent its body, so closing the connection immediately would lose the response.
   */
  private discardBody(request: IncomingMessage): void {
    const { socket } = request;
    request.resume();
    const lingerTimer = setTimeout(() => {
      if (!request.complete) socket.destroy();
    }, this.limits.lingerMs).unref();
    request.once('close', () => clearTimeout(lingerTimer));
  }

  /** Closes an HTTP/2 session that has had no stream for the idle time. */
  private trackSession(session: ServerHttp2Session): void {
    let streamCount = 0;
    this.sessions.add(session);
    session.once('close', () => this.sessions.delete(session));
    session.on('stream', (stream) => {
      streamCount += 1;
      stream.once('close', () => (streamCount -= 1));
    });
    session.setTimeout(this.limits.idleMs, () => {
      if (streamCount === 0) session.close();
    });
  }

  /** Tracks the body of an HTTP/2 request; Node.js limits the time of request bodies only over HTTP/1.1. */
  private trackBody(request: Http2ServerRequest): void {
    if (request.stream.endAfterHeaders) return;
    this.bodyStartByRequest.set(request, performance.now());
    const stopTracking = (): void => void this.bodyStartByRequest.delete(request);
    request.once('end', stopTracking).once('close', stopTracking);
    request.stream.once('finish', () => this.closeAfterResponse(request));
  }

  /**
   * Called when the response is sent before the body is complete: discards the rest for a limited time, as over
   * HTTP/1.1.
   */
  private closeAfterResponse(request: Http2ServerRequest): void {
    const { stream } = request;
    if (!this.bodyStartByRequest.has(request)) return;
    if (this.isClosing) return stream.close();
    const lingerTimer = setTimeout(() => stream.close(), this.limits.lingerMs).unref();
    stream.once('close', () => clearTimeout(lingerTimer));
  }

  /** Rejects the HTTP/2 requests whose body has not arrived within the time limit. */
  private rejectSlowBodies(): void {
    const latestAllowedStart = performance.now() - this.limits.requestMs;
    for (const [request, startedAt] of this.bodyStartByRequest)
      if (startedAt < latestAllowedStart && !this.rejectSlowBody(request))
        request.stream.close(constants.NGHTTP2_CANCEL);
  }
}

function formatPeer({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

function isHttp2(socket: Socket): boolean {
  return (socket as { alpnProtocol?: string | false }).alpnProtocol === 'h2';
}
