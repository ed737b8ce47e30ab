import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** A proxy to a server that can discard the responses on a connection and then break it. */
export class CuttingProxy {
  /** The number of accepted connections. */
  accepted = 0;
  private readonly sockets = new Set<Socket>();
  private isDiscarding = false;
  private readonly server = createServer((client) => this.accept(client));

  constructor(private readonly target: number) {}

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** Discards all further responses on the existing connections. */
  loseAnswers(): void {
    this.isDiscarding = true;
  }

  /** Breaks every connection. New connections work. */
  cut(): void {
    this.isDiscarding = false;
    for (const socket of this.sockets) socket.destroy();
  }

  async stop(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private accept(client: Socket): void {
    this.accepted += 1;
    const upstream = connect(this.target, '127.0.0.1');
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.sockets.add(socket);
      socket.on('error', () => {}); // The close event reports the same.
      socket.on('close', () => {
        this.sockets.delete(socket);
        other.destroy();
      });
    }
    client.on('data', (data) => upstream.write(data));
    upstream.on('data', (data) => this.isDiscarding || client.write(data));
  }
}
