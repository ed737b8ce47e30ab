import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A way to a broker that can go dead without a word, as a cable that is pulled somewhere in between. */
export class TcpProxy {
  private readonly sockets = new Set<Socket>();
  private isDead = false;

  private constructor(
    private readonly server: Server,
    private readonly target: number,
  ) {}

  static async start(target: number): Promise<TcpProxy> {
    const server = createServer();
    const proxy = new TcpProxy(server, target);
    server.on('connection', (socket) => proxy.join(socket));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return proxy;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** From now on everything is swallowed, both ways, on old and new connections; no end is told either. */
  swallow(): void {
    this.isDead = true;
  }

  /** New connections work again; the old ones stay dead. */
  mend(): void {
    this.isDead = false;
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
    await once(this.server, 'close');
  }

  private join(near: Socket): void {
    const far = connect(this.target, '127.0.0.1');
    let isDead = this.isDead;
    for (const [from, to] of [[near, far], [far, near]] as const) {
      this.sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => (this.sockets.delete(from), isDead || to.destroy()));
      from.on('data', (chunk: Buffer) => {
        isDead ||= this.isDead;
        if (!isDead) to.write(chunk);
      });
    }
  }
}
