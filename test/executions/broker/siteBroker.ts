import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { Aedes, type PublishPacket } from 'aedes';

type Done = (error?: Error | null) => void;

/** An in-process MQTT 3.1.1 broker of a site. It can stop, return with all its sessions, and respond slowly. */
export class SiteBroker {
  private server: Server | undefined;
  private readonly sockets = new Set<Socket>();
  private port = 0;
  private held: (() => void)[] | undefined;
  private isHeld: (topic: string) => boolean = () => false;
  private readonly waitingForHeld = new Set<() => void>();

  private constructor(private readonly aedes: Aedes) {}

  static async start(): Promise<SiteBroker> {
    const aedes = await Aedes.createBroker();
    const broker = new SiteBroker(aedes);
    aedes.authorizePublish = (_client, packet: PublishPacket, done: Done) => broker.admit(packet, done);
    await broker.startListening();
    return broker;
  }

  get url(): string {
    return `mqtt://127.0.0.1:${this.port}`;
  }

  /** The number of messages whose acknowledgement is held back. */
  get waiting(): number {
    return this.held?.length ?? 0;
  }

  /** Closes every connection and rejects new ones. */
  async stopListening(): Promise<void> {
    const { server } = this;
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => server?.close(resolve));
  }

  /** Listens again on the same port as before. */
  async startListening(): Promise<void> {
    const server = createServer((socket) => {
      this.sockets.add(socket);
      socket.once('close', () => this.sockets.delete(socket));
      this.aedes.handle(socket);
    });
    await new Promise<void>((resolve) => server.listen(this.port, '127.0.0.1', resolve));
    this.port = (server.address() as AddressInfo).port;
    this.server = server;
  }

  /** Stops acknowledging and forwarding messages on topics with this ending. */
  hold(ending: string): void {
    this.held = [];
    this.isHeld = (topic) => topic.endsWith(ending);
  }

  /** Acknowledges and forwards the messages that were held back. */
  release(): void {
    const held = this.held ?? [];
    this.held = undefined;
    this.isHeld = () => false;
    for (const finish of held) finish();
  }

  /** Resolves when this number of messages is held back. */
  async untilHeld(count: number): Promise<void> {
    while (this.waiting < count) await new Promise<void>((resolve) => this.waitingForHeld.add(resolve));
  }

  async stop(): Promise<void> {
    await this.stopListening();
    await new Promise<void>((resolve) => this.aedes.close(resolve));
  }

  private admit(packet: PublishPacket, done: Done): void {
    if (!this.held || !this.isHeld(packet.topic)) return done(null);
    this.held.push(() => done(null));
    for (const resolve of this.waitingForHeld) resolve();
    this.waitingForHeld.clear();
  }
}
