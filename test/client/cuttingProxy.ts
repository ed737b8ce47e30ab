import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** A link to a server that can lose the answers of a connection and then break. */
export class CuttingProxy {
  /** Connections that came. */
  accepted = 0;
  private readonly sockets = new Set<Socket>();
  private isDeaf = false;
  private readonly server = createServer((client) => this.accept(client));

  constructor(private readonly target: number) {}

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** From now on what the server answers is lost; of connections that are there. */
  loseAnswers(): void {
    this.isDeaf = true;
  }

  /** Breaks every connection; a new one is whole. */
  cut(): void {
    this.isDeaf = false;
    for (const socket of this.sockets) socket.destroy();
  }

  async stop(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private accept(client: Socket): void {
    this.accepted += 1;
    const upstream = connect(this.target, '127.0.0.1');
    for (const [socket, other] of [[client, upstream], [upstream, client]] as const) {
      this.sockets.add(socket);
      socket.on('error', () => {}); // its end says the same
      socket.on('close', () => {
        this.sockets.delete(socket);
        other.destroy();
      });
    }
    client.on('data', (data) => upstream.write(data));
    upstream.on('data', (data) => this.isDeaf || client.write(data));
  }
}
