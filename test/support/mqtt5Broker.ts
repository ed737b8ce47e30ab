import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import {
  generate,
  parser,
  type IConnectPacket,
  type IPublishPacket,
  type ISubscribePacket,
  type Packet,
} from 'mqtt-packet';
import { matchesFilter } from '../../src/connections/connectors/mqtt/topicTemplate';

/** A client's session at the broker. */
interface Session {
  readonly filters: Map<string, number | undefined>;
  /** Unacknowledged messages of QoS 1, in order. The first ones were sent, as many as fit the window. */
  readonly open: Map<number, IPublishPacket>;
  socket: Socket | undefined;
  version: number;
  lastId: number;
}

/** A small broker of MQTT 5 (and 3.1.1) that records what it receives. A test controls its responses. */
export class Mqtt5Broker {
  readonly connects: IConnectPacket[] = [];
  readonly subscribes: ISubscribePacket[] = [];
  /** The messages that clients published. */
  readonly published: IPublishPacket[] = [];
  /** Packet identifiers that were acknowledged by clients. */
  readonly acknowledged: number[] = [];
  readonly farewells: string[] = [];
  /** The reason codes of the disconnects of clients that exceeded a property of the CONNACK. */
  readonly violations: number[] = [];
  /** The number of received pings. */
  pings = 0;
  /** Returns the reason code of a CONNACK. 0 accepts the client. */
  onConnect: (packet: IConnectPacket) => number = () => 0;
  /** Returns the reason code of a PUBACK, or undefined to send none, except with `acknowledgeLate`. */
  onPublish: (packet: IPublishPacket) => number | undefined = () => 0;
  /** Returns the reason code for a filter, or undefined to send no SUBACK. */
  onSubscribe: (filter: string) => number | undefined = () => 1;
  /** Delays the SUBACK until this resolves. Undefined sends it at once. */
  subackAllowed: Promise<void> | undefined;
  /**
   * How many messages of QoS 1 a client gets before it has acknowledged one. The others wait, as in real brokers. The
   * broker's own responses overtake them.
   */
  window = 65_535;
  /** Omits the identifiers of subscriptions, although it announces support for them. */
  isForgetful = false;
  /** Accepts everything and answers nothing. */
  isMute = false;
  /**
   * The properties of the CONNACK. The broker disconnects clients that exceed `maximumQoS`, `maximumPacketSize` or
   * `wildcardSubscriptionAvailable`, as real brokers do.
   */
  properties: Readonly<Record<string, unknown>> = {};
  /** The retained messages by topic. They are sent at each subscription that does not exclude them. */
  readonly retained = new Map<string, string>();
  private readonly sessions = new Map<string, Session>();
  private readonly sockets = new Set<Socket>();
  private waiting: (() => void)[] = [];
  /** Send the PUBACKs that `onPublish` withheld. */
  private withheld: (() => void)[] = [];
  private server: Server | undefined;
  private port = 0;

  /** Listens. A later start uses the same port. */
  async start(): Promise<this> {
    this.server = createServer((socket) => this.serve(socket));
    this.server.listen(this.port, '127.0.0.1');
    await once(this.server, 'listening');
    this.port = (this.server.address() as AddressInfo).port;
    return this;
  }

  get url(): string {
    return `mqtt://127.0.0.1:${this.port}`;
  }

  /** Disconnects all clients. Sessions stay. */
  cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  /** Stops listening. Sessions stay. */
  async stop(): Promise<void> {
    this.server?.close();
    this.cut();
    if (this.server?.listening === true) await once(this.server, 'close');
  }

  /** The IDs of the stored sessions. */
  get kept(): string[] {
    return [...this.sessions.keys()];
  }

  /** Publishes to all subscribers, and stores the message for disconnected ones. */
  publish(topic: string, payload: string | Buffer, more: Partial<IPublishPacket> = {}): void {
    for (const session of this.sessions.values()) {
      const filter = [...session.filters.keys()].find((one) => matchesFilter(topic, one));
      if (filter === undefined) continue;
      session.lastId += 1;
      const subscriptionIdentifier = this.isForgetful ? undefined : session.filters.get(filter);
      const properties = {
        ...more.properties,
        ...(subscriptionIdentifier !== undefined && { subscriptionIdentifier }),
      };
      const packet: IPublishPacket = {
        cmd: 'publish',
        topic,
        payload,
        qos: 1,
        dup: false,
        retain: false,
        messageId: session.lastId,
        ...more,
        ...(session.version === 5 && { properties }),
      };
      if (packet.qos === 1) session.open.set(session.lastId, packet);
      if (packet.qos !== 1 || session.open.size <= this.window) this.send(session, packet);
    }
  }

  /** Ends the connections with a DISCONNECT packet of MQTT 5. */
  disconnect(reasonCode: number): void {
    for (const { socket } of this.sessions.values())
      socket?.end(generate({ cmd: 'disconnect', reasonCode }, { protocolVersion: 5 }));
  }

  /** Sends the PUBACKs that were withheld so far. */
  acknowledgeLate(): void {
    for (const acknowledge of this.withheld.splice(0)) acknowledge();
  }

  /** Resolves when the condition holds. It is checked whenever a packet arrives. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  private serve(socket: Socket): void {
    this.sockets.add(socket);
    const reader = parser({ protocolVersion: 4 });
    const name = { clientId: '' };
    reader.on('packet', (packet) => this.isMute || this.receive(socket, name, packet));
    reader.on('error', () => socket.destroy());
    socket.on('data', (bytes) => reader.parse(bytes));
    socket.on('error', () => {});
    socket.on('close', () => {
      this.sockets.delete(socket);
      const session = this.sessions.get(name.clientId);
      if (session?.socket === socket) session.socket = undefined;
      this.notifyWaiters();
    });
  }

  private receive(socket: Socket, name: { clientId: string }, packet: Packet): void {
    if (packet.cmd === 'connect') name.clientId = this.greet(socket, packet);
    const session = this.sessions.get(name.clientId);
    const violation = this.findViolation(packet);
    if (session && violation !== undefined) this.reject(session, violation);
    else if (session) this.answer(session, packet, name.clientId);
    this.notifyWaiters();
  }

  /** Returns the reason code for a packet that exceeds what the CONNACK announced. */
  private findViolation(packet: Packet): number | undefined {
    const { maximumQoS, maximumPacketSize, wildcardSubscriptionAvailable } = this.properties;
    if (packet.cmd === 'publish' && typeof maximumQoS === 'number' && packet.qos > maximumQoS) return 0x9b;
    const size = packet.cmd === 'connect' ? 0 : generate(packet, { protocolVersion: 5 }).length;
    if (typeof maximumPacketSize === 'number' && size > maximumPacketSize) return 0x95;
    const hasWildcard = packet.cmd === 'subscribe' && packet.subscriptions.some(({ topic }) => /[+#]/.test(topic));
    return hasWildcard && wildcardSubscriptionAvailable === false ? 0xa2 : undefined;
  }

  private reject(session: Session, reasonCode: number): void {
    this.violations.push(reasonCode);
    session.socket?.end(generate({ cmd: 'disconnect', reasonCode }, { protocolVersion: 5 }));
  }

  private greet(socket: Socket, packet: IConnectPacket): string {
    this.connects.push(packet);
    const { clientId, clean = true, protocolVersion: version = 4 } = packet;
    const reasonCode = this.onConnect(packet);
    const existing = clean ? undefined : this.sessions.get(clientId);
    const isIn = reasonCode === 0;
    const answer = {
      cmd: 'connack',
      sessionPresent: isIn && existing !== undefined,
      reasonCode,
      returnCode: reasonCode,
      ...(version === 5 && { properties: this.properties }),
    } as const;
    socket.write(generate(answer, { protocolVersion: version }));
    if (!isIn) {
      socket.end();
      return '';
    }
    const session: Session = existing ?? { filters: new Map(), open: new Map(), socket: undefined, version, lastId: 0 };
    session.socket = socket;
    session.version = version;
    this.sessions.set(clientId, session);
    for (const packetToRepeat of [...session.open.values()].slice(0, this.window))
      this.send(session, { ...packetToRepeat, dup: true });
    if (clean) session.socket.once('close', () => this.sessions.delete(clientId));
    return clientId;
  }

  private answer(session: Session, packet: Packet, clientId: string): void {
    if (packet.cmd === 'subscribe') this.subscribe(session, packet);
    if (packet.cmd === 'pingreq') this.pong(session);
    if (packet.cmd === 'disconnect') this.farewells.push(clientId);
    if (packet.cmd === 'puback') this.acknowledge(session, packet.messageId ?? 0);
    if (packet.cmd === 'publish') this.receivePublish(session, packet);
  }

  private acknowledge(session: Session, messageId: number): void {
    this.acknowledged.push(messageId);
    const isOpen = session.open.delete(messageId);
    const next = isOpen && session.open.size >= this.window ? [...session.open.values()][this.window - 1] : undefined;
    if (next) this.send(session, next);
  }

  private pong(session: Session): void {
    this.pings += 1;
    this.send(session, { cmd: 'pingresp' });
  }

  private subscribe(session: Session, packet: ISubscribePacket): void {
    this.subscribes.push(packet);
    const granted: number[] = [];
    for (const { topic } of packet.subscriptions) {
      const reason = this.onSubscribe(topic);
      if (reason === undefined) return;
      granted.push(reason);
      if (reason < 128) session.filters.set(topic, packet.properties?.subscriptionIdentifier);
    }
    const answer = (): void => {
      this.send(session, { cmd: 'suback', messageId: packet.messageId ?? 0, granted });
      for (const { topic, rh = 0 } of packet.subscriptions) if (rh !== 2) this.sendRetained(session, topic);
    };
    if (this.subackAllowed) void this.subackAllowed.then(answer);
    else answer();
  }

  private sendRetained(session: Session, filter: string): void {
    for (const [topic, payload] of this.retained) {
      if (!matchesFilter(topic, filter)) continue;
      session.lastId += 1;
      const messageId = session.lastId;
      const packet = { cmd: 'publish', topic, payload, qos: 1, dup: false, retain: true, messageId } as const;
      session.open.set(messageId, packet);
      this.send(session, packet);
    }
  }

  private receivePublish(session: Session, packet: IPublishPacket): void {
    this.published.push(packet);
    const reasonCode = this.onPublish(packet);
    if (reasonCode === undefined) {
      this.withheld.push(() => this.send(session, { cmd: 'puback', messageId: packet.messageId ?? 0, reasonCode: 0 }));
      return;
    }
    if (packet.qos === 1) this.send(session, { cmd: 'puback', messageId: packet.messageId ?? 0, reasonCode });
    if (reasonCode < 128) this.publish(packet.topic, packet.payload);
  }

  private send(session: Session, packet: Packet): void {
    if (session.socket?.writable === true) session.socket.write(generate(packet, { protocolVersion: session.version }));
  }

  private notifyWaiters(): void {
    for (const resolve of this.waiting.splice(0)) resolve();
  }
}
