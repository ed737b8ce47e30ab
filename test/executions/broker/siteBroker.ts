import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { Aedes, type PublishPacket } from 'aedes';

type Done = (error?: Error | null) => void;

/** The MQTT broker of a site, in this process: it speaks 3.1.1. It can go away and come back with all its sessions, and be slow. */
export class SiteBroker {
  private server: Server | undefined;
  private readonly sockets = new Set<Socket>();
  private port = 0;
  private held: (() => void)[] | undefined;
  private isHeld: (topic: string) => boolean = () => false;
  private readonly looking = new Set<() => void>();

  private constructor(private readonly aedes: Aedes) {}

  static async start(): Promise<SiteBroker> {
    const aedes = await Aedes.createBroker();
    const broker = new SiteBroker(aedes);
    aedes.authorizePublish = (_client, packet: PublishPacket, done: Done) => broker.admit(packet, done);
    await broker.comeBack();
    return broker;
  }

  get url(): string {
    return `mqtt://127.0.0.1:${this.port}`;
  }

  /** How many messages it keeps its acknowledgement back of. */
  get waiting(): number {
    return this.held?.length ?? 0;
  }

  /** Every link breaks, and nobody can connect. */
  async goAway(): Promise<void> {
    const { server } = this;
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => server?.close(resolve));
  }

  /** Listens again where it did before. */
  async comeBack(): Promise<void> {
    const server = createServer((socket) => {
      this.sockets.add(socket);
      socket.once('close', () => this.sockets.delete(socket));
      this.aedes.handle(socket);
    });
    await new Promise<void>((resolve) => server.listen(this.port, '127.0.0.1', resolve));
    this.port = (server.address() as AddressInfo).port;
    this.server = server;
  }

  /** From now on it neither acknowledges nor forwards messages on topics that end so. */
  hold(ending: string): void {
    this.held = [];
    this.isHeld = (topic) => topic.endsWith(ending);
  }

  /** It does both with what it held. */
  release(): void {
    const held = this.held ?? [];
    this.held = undefined;
    this.isHeld = () => false;
    for (const go of held) go();
  }

  /** Resolves when it holds so many messages. */
  async untilHeld(count: number): Promise<void> {
    while (this.waiting < count) await new Promise<void>((resolve) => this.looking.add(resolve));
  }

  async stop(): Promise<void> {
    await this.goAway();
    await new Promise<void>((resolve) => this.aedes.close(resolve));
  }

  private admit(packet: PublishPacket, done: Done): void {
    if (!this.held || !this.isHeld(packet.topic)) return done(null);
    this.held.push(() => done(null));
    for (const look of this.looking) look();
    this.looking.clear();
  }
}
