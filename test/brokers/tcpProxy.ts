import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A TCP proxy in front of a broker or a database. It can drop all traffic silently, as if a cable were unplugged. */
export class TcpProxy {
  private readonly sockets = new Set<Socket>();
  /** Functions that close each open connection. */
  private readonly cuts = new Set<(side: 'both' | 'client') => void>();
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

  /** From now on drops everything in both directions, on old and new connections, including disconnects. */
  swallow(): void {
    this.isDead = true;
  }

  /** Lets new connections work again. Old ones stay dead. */
  restore(): void {
    this.isDead = false;
  }

  /** Closes the open connections on both sides, or only on the client side so that the target considers them open. */
  cut(side: 'both' | 'client'): void {
    for (const cut of this.cuts) cut(side);
    this.cuts.clear();
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
    await once(this.server, 'close');
  }

  private join(near: Socket): void {
    const far = connect(this.target, '127.0.0.1');
    let isDead = this.isDead;
    const cut = (side: 'both' | 'client'): void => {
      isDead ||= side === 'client';
      near.destroy();
    };
    this.cuts.add(cut);
    near.on('close', () => this.cuts.delete(cut));
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
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
