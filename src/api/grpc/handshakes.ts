import type { EventEmitter } from 'node:events';
import type { ServerHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';

/**
 * Tracks connections that are not ready for calls yet. They must complete the TLS handshake and send the HTTP/2 preface
 * with its settings within a time limit. They have no calls, so a graceful shutdown does not wait for them.
 */
export class Handshakes {
  /** The connections that are not ready yet, by client address and port. */
  private readonly socketByClient = new Map<string, Socket>();

  /** `timeoutMs`: the time limit until a connection is ready, in milliseconds. */
  constructor(private readonly timeoutMs: number) {}

  /** Watches the connections of a server that has just been created. */
  watch(server: EventEmitter): void {
    server.on('connection', (socket: Socket) => this.trackSocket(socket));
    server.on('session', (session: ServerHttp2Session) => {
      const clientAddress = formatClientAddress(session.socket);
      // With its settings, the client has completed the HTTP/2 preface.
      session.once('remoteSettings', () => this.socketByClient.delete(clientAddress));
    });
  }

  /** Disconnects all connections that are not ready yet. */
  disconnectAll(): void {
    for (const socket of this.socketByClient.values()) socket.destroy();
  }

  /** Tracks a new socket, and disconnects it if it is still not ready after the time limit. */
  private trackSocket(socket: Socket): void {
    const clientAddress = formatClientAddress(socket);
    this.socketByClient.set(clientAddress, socket);
    // A later connection may have the same address and port.
    const isTracked = (): boolean => this.socketByClient.get(clientAddress) === socket;
    const timer = setTimeout(() => {
      if (isTracked()) socket.destroy();
    }, this.timeoutMs).unref();
    socket.once('close', () => {
      clearTimeout(timer);
      if (isTracked()) this.socketByClient.delete(clientAddress);
    });
  }
}

/** Identifies a connection by its client address, because the TLS socket is a different object than the TCP socket. */
function formatClientAddress({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress}:${remotePort}`;
}
