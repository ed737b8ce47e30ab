import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import type { TestEngine } from './engines';

/** What happens to the next commit: its response is lost, or it arrives only after its connection broke. */
export type CommitFate = 'answer_lost' | 'late';

/** A proxy between a server and PostgreSQL that breaks connections at a commit. */
export class PostgresProxy {
  private readonly sockets = new Set<Socket>();
  private fate: CommitFate | undefined;
  private late: (() => void) | undefined;

  private constructor(
    private readonly server: Server,
    private readonly target: URL,
  ) {}

  /** Starts a proxy for the server of a URL. */
  static async start(url: string): Promise<PostgresProxy> {
    const server = createServer();
    const proxy = new PostgresProxy(server, new URL(url));
    server.on('connection', (client) => proxy.accept(client));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  /** The URL of the same database through the proxy. */
  get url(): string {
    const url = new URL(this.target);
    url.hostname = '127.0.0.1';
    url.port = String((this.server.address() as AddressInfo).port);
    return url.href;
  }

  /** Breaks the next commit. */
  breakCommit(fate: CommitFate): void {
    this.fate = fate;
  }

  /** Delivers the delayed commit. */
  deliverLate(): void {
    if (!this.late) throw new Error('no commit is late');
    this.late();
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private accept(client: Socket): void {
    const upstream = connect(Number(this.target.port), this.target.hostname);
    let isBroken = false;
    for (const socket of [client, upstream]) {
      this.sockets.add(socket);
      socket.on('error', () => {}); // its end reports the same
    }
    upstream.on('data', (data) => void client.write(data));
    upstream.on('close', () => client.destroy());
    client.on('close', () => {
      if (!isBroken) upstream.destroy();
    });
    client.on('data', (data) => {
      const fate = data.includes('COMMIT;') ? this.fate : undefined;
      if (fate !== 'late') upstream.write(data);
      if (fate === undefined) return;
      isBroken = true;
      this.fate = undefined;
      upstream.removeAllListeners('data');
      if (fate === 'answer_lost') {
        upstream.once('data', () => void upstream.destroy());
      } else {
        this.late = () => void upstream.write(data);
        upstream.resume();
        client.destroy();
      }
    });
  }
}

/** Returns the engine, connected through a proxy that is passed to `onStart`. */
export function throughProxy(engine: TestEngine, onStart: (proxy: PostgresProxy) => void): TestEngine {
  return {
    ...engine,
    createDatabase: async () => {
      const test = await engine.createDatabase();
      const proxy = await PostgresProxy.start(test.url);
      onStart(proxy);
      const database = await test.open({ url: proxy.url });
      const drop = async (): Promise<void> => {
        await database.close();
        await proxy.stop();
        await test.drop();
      };
      return { ...test, database, drop };
    },
  };
}
