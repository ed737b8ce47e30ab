import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';

/** Network connections whose TLS handshake is still to come. They carry no call, so whoever closes the port need not wait for them. */
export class Handshakes {
  private readonly open = new Map<string, Socket>();

  /** Watches a port from its beginning. One without TLS has no `secureConnection`: call it for ports with TLS alone. */
  watch(port: EventEmitter): void {
    port.on('connection', (socket: Socket) => {
      const name = nameOf(socket);
      this.open.set(name, socket);
      socket.once('close', () => this.open.delete(name));
    });
    port.on('secureConnection', (socket: Socket) => this.open.delete(nameOf(socket)));
  }

  /** Cuts those that are under way. */
  cut(): void {
    for (const socket of this.open.values()) socket.destroy();
  }
}

/** TLS hands out another socket, of the same peer. */
function nameOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress}:${remotePort}`;
}
