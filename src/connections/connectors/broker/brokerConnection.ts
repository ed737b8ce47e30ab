import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { connect as connectMqtt, type MqttClient } from 'mqtt';
import { generate, writeToStream, type IConnackPacket, type IPublishPacket, type Packet } from 'mqtt-packet';
import { BrokerError, CLOSED, faultOfError, faultOfReason, type BrokerFault } from './brokerFaults';
import { clientOptionsOf, type BrokerSettings, type MqttVersion } from './brokerSettings';
import { outcomeOfReason, tooLarge, type PublishOutcome } from './publishOutcome';

/** What came in, and its packet identifier if it must be acknowledged (QoS 1). */
export interface Incoming {
  readonly packet: IPublishPacket;
  readonly messageId: number | undefined;
}

/** What a network connection needs. */
export interface BrokerConnectionOptions {
  readonly settings: BrokerSettings;
  readonly version: MqttVersion;
  /** From the first packet of TCP to the broker's answer. */
  readonly connectTimeoutMs: number;
  /** Called for each message in order, without waiting for those before; it is acknowledged when that resolves, and not if it rejects. */
  readonly message: (incoming: Incoming) => Promise<void>;
  /** No more is read while so many are under way; 500 unless given. */
  readonly mostUnderWay?: number;
}

/** A message that is to be published. */
export interface BrokerPublish {
  readonly topic: string;
  readonly payload: Buffer;
  /** Whole seconds, with MQTT 5. */
  readonly expirySeconds?: number | undefined;
  readonly responseTopic?: string | undefined;
  readonly correlationData?: Buffer | undefined;
}

const MOST_UNDER_WAY = 500;
const LARGEST_RECEIVE_MAXIMUM = 65_535;

/**
 * One network connection to a broker, over one client of the library that is thrown away with it. The library acknowledges a message
 * before it looks at the next one; so that many can be stored side by side, it is shown each as one of QoS 0, and the acknowledgement is written here.
 */
export class BrokerConnection {
  /** Resolves with the reason when it is over; never rejects. */
  readonly closed: Promise<BrokerFault>;
  private readonly over = new AbortController();
  private readonly client: MqttClient | undefined;
  private readonly outcomes = new Map<number, (outcome: PublishOutcome) => void>();
  private readonly waiting: { onIdle: () => void }[] = [];
  private messageIds = new WeakMap<IPublishPacket, number>();
  private connack: IConnackPacket | undefined;
  private fault: BrokerFault | undefined;
  /** How far it came before the first packet of MQTT. */
  private progress: 'reached' | 'secured' | undefined;
  private underWay = 0;
  private isDeaf = false;
  private held: (() => void) | undefined;
  private breathing: NodeJS.Timeout | undefined;
  private resolveClosed: (fault: BrokerFault) => void = () => {};

  /** Begins to connect. */
  constructor(private readonly options: BrokerConnectionOptions) {
    this.closed = new Promise((resolve) => (this.resolveClosed = resolve));
    try {
      this.client = connectMqtt(clientOptionsOf(options.settings, options.version, options.connectTimeoutMs));
    } catch (error) {
      this.end(faultOfError(error)); // a key or a certificate that is none
      return;
    }
    this.listen(this.client);
  }

  /** Resolves when the broker has accepted us; rejects with a BrokerError. */
  async opened(): Promise<void> {
    const { client } = this;
    if (!client) throw new BrokerError(await this.closed);
    await new Promise<void>((resolve, reject) => {
      client.once('connect', () => resolve());
      void this.closed.then((fault) => reject(new BrokerError(fault)));
    });
  }

  /** Aborts when it is over. */
  get signal(): AbortSignal {
    return this.over.signal;
  }

  /** Whether messages can leave. */
  get isOpen(): boolean {
    return !this.isDeaf && !this.over.signal.aborted && this.client?.connected === true && this.client.stream.writable;
  }

  /** Whether the broker answered at all. */
  get isAnswered(): boolean {
    return this.connack !== undefined;
  }

  /** Whether the broker had kept our session. */
  get isSessionPresent(): boolean {
    return this.connack?.sessionPresent === true;
  }

  /** Whether messages tell which subscription they came by. */
  get hasSubscriptionIds(): boolean {
    const { subscriptionIdentifiersAvailable } = (this.connack?.properties ?? {}) as { readonly subscriptionIdentifiersAvailable?: boolean };
    return this.options.version === '5' && subscriptionIdentifiersAvailable !== false;
  }

  /** How many messages of ours the broker takes at a time before it has acknowledged one. */
  get receiveMaximum(): number {
    return this.connack?.properties?.receiveMaximum ?? LARGEST_RECEIVE_MAXIMUM;
  }

  /** How many messages of ours are not acknowledged yet. */
  get inFlight(): number {
    return this.outcomes.size;
  }

  /** Subscribes with QoS 1, without retained messages where that can be said. Rejects with a BrokerError if the broker refuses one. */
  async subscribe(filters: readonly string[], subscriptionId: number | undefined): Promise<void> {
    if (filters.length === 0) return;
    const isMqtt5 = this.options.version === '5';
    const options = { qos: 1 as const, ...(isMqtt5 && { rh: 2 }), ...(isMqtt5 && subscriptionId !== undefined && { properties: { subscriptionIdentifier: subscriptionId } }) };
    const subscribed = new Promise<void>((resolve, reject) => {
      this.client?.subscribe([...filters], options, (error) => (error ? reject(new BrokerError(this.fault ?? refusedSubscription(filters))) : resolve()));
    });
    await Promise.race([subscribed, this.closed.then((fault) => Promise.reject(new BrokerError(fault)))]);
  }

  /** Publishes with QoS 1, not retained. False: not a byte left. `onOutcome` is never called once the connection is over. */
  publish(message: BrokerPublish, onOutcome: (outcome: PublishOutcome) => void): boolean {
    const { client } = this;
    if (!client || !this.isOpen || this.inFlight >= this.receiveMaximum) return false;
    const { topic, payload } = message;
    const properties = this.options.version === '5' ? propertiesOf(message) : undefined;
    const bytes = this.excess({ cmd: 'publish', topic, payload, qos: 1, dup: false, retain: false, messageId: 1, ...(properties && { properties }) });
    if (bytes) {
      setImmediate(() => this.isOpen && onOutcome(tooLarge(bytes.size, bytes.most)));
      return true;
    }
    client.publish(topic, payload, { qos: 1, ...(properties && { properties }) }, () => {}); // its outcome is in the PUBACK
    this.outcomes.set(client.getLastMessageId(), onOutcome);
    return true;
  }

  /** Takes no more messages, waits at most `limitMs` for those under way, and says goodbye; the session stays at the broker. */
  async close(limitMs: number): Promise<void> {
    this.isDeaf = true;
    const { client } = this;
    if (client && !this.over.signal.aborted && client.connected) {
      await this.idle(limitMs);
      if (client.stream.writable) {
        writeToStream({ cmd: 'disconnect', reasonCode: 0 }, client.stream, { protocolVersion: client.options.protocolVersion });
        client.stream.end();
        await within(this.closed, limitMs);
      }
    }
    this.destroy();
    await this.closed;
  }

  /** Cuts it off. */
  destroy(): void {
    this.client?.end(true);
  }

  private listen(client: MqttClient): void {
    if (client.stream instanceof Socket) client.stream.setNoDelay(true); // small packets must not wait for each other's acknowledgement
    client.stream.once('connect', () => (this.progress = client.stream instanceof TLSSocket ? 'reached' : 'secured'));
    client.stream.once('secureConnect', () => (this.progress = 'secured'));
    client.handleMessage = (packet, done) => this.take(packet, () => done());
    client.on('packetreceive', (packet) => this.received(packet));
    client.on('error', (error) => {
      this.fault ??= this.refusal() ?? faultOfError(error, this.progress);
      this.destroy();
    });
    client.on('close', () => this.end(this.fault ?? CLOSED));
  }

  private received(packet: Packet): void {
    if (packet.cmd === 'publish') return this.conceal(packet);
    if (packet.cmd === 'puback') return this.settle(packet.messageId ?? 0, packet.reasonCode);
    if (packet.cmd === 'connack') this.connack = packet;
    if (packet.cmd === 'disconnect') this.fault ??= faultOfReason(packet.reasonCode ?? 0, true);
  }

  /** Shows the library a message of QoS 1 as one that needs no acknowledgement. */
  private conceal(packet: IPublishPacket): void {
    if (packet.qos !== 1) return;
    this.messageIds.set(packet, packet.messageId ?? 0);
    packet.qos = 0;
  }

  private take(packet: IPublishPacket, done: () => void): void {
    if (this.isDeaf || this.over.signal.aborted) return; // not acknowledged, so the broker keeps it
    const messageId = this.messageIds.get(packet);
    this.underWay += 1;
    void this.handle({ packet, messageId });
    if (this.underWay < (this.options.mostUnderWay ?? MOST_UNDER_WAY)) done();
    else this.hold(done);
  }

  private async handle(incoming: Incoming): Promise<void> {
    try {
      await this.options.message(incoming);
      if (incoming.messageId !== undefined) this.acknowledge(incoming.messageId);
    } catch {
      // The link has written down why; the broker sends it again on the next connection.
    }
    this.underWay -= 1;
    this.release();
    if (this.underWay === 0) for (const { onIdle } of this.waiting.splice(0)) onIdle();
  }

  private acknowledge(messageId: number): void {
    const { client } = this;
    if (!client || this.over.signal.aborted || !client.stream.writable) return;
    writeToStream({ cmd: 'puback', messageId, reasonCode: 0 }, client.stream, { protocolVersion: client.options.protocolVersion });
  }

  /** Reads no more, so that the broker must wait. What it answers waits too: the link breathes by itself meanwhile, for it is not dead. */
  private hold(done: () => void): void {
    this.held = done;
    const every = (this.options.settings.keepaliveSeconds * 1000) / 2;
    this.breathing = setInterval(() => {
      this.client?.sendPing();
      this.client?.reschedulePing(true);
    }, every);
  }

  private release(): void {
    const { held } = this;
    if (!held) return;
    this.held = undefined;
    clearInterval(this.breathing);
    held();
  }

  private settle(messageId: number, reason = 0): void {
    const onOutcome = this.outcomes.get(messageId);
    this.outcomes.delete(messageId);
    onOutcome?.(outcomeOfReason(reason));
  }

  /** What the CONNACK says, which is more than the library's error. */
  private refusal(): BrokerFault | undefined {
    const code = this.options.version === '5' ? this.connack?.reasonCode : this.connack?.returnCode;
    return code === undefined || code === 0 ? undefined : faultOfReason(code, this.options.version === '5');
  }

  private excess(packet: IPublishPacket): { size: number; most: number } | undefined {
    const most = this.connack?.properties?.maximumPacketSize;
    if (most === undefined) return undefined;
    const size = generate(packet, { protocolVersion: 5 }).length;
    return size > most ? { size, most } : undefined;
  }

  private async idle(limitMs: number): Promise<void> {
    if (this.underWay === 0) return;
    await within(new Promise<void>((resolve) => this.waiting.push({ onIdle: resolve })), limitMs);
  }

  private end(fault: BrokerFault): void {
    if (this.over.signal.aborted) return;
    clearInterval(this.breathing);
    this.outcomes.clear();
    this.over.abort();
    this.resolveClosed(fault);
  }
}

function propertiesOf({ expirySeconds, responseTopic, correlationData }: BrokerPublish): NonNullable<IPublishPacket['properties']> {
  return {
    ...(expirySeconds !== undefined && { messageExpiryInterval: expirySeconds }),
    ...(responseTopic !== undefined && { responseTopic }),
    ...(correlationData !== undefined && { correlationData }),
  };
}

function refusedSubscription(filters: readonly string[]): BrokerFault {
  const topics = filters.map((filter) => JSON.stringify(filter)).join(', ');
  return { code: 'subscription_refused', message: `the broker refuses a subscription of ${topics}; give the user of the connection the right to subscribe to it`, isFatal: true };
}

async function within(promise: Promise<unknown>, limitMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([promise, new Promise<void>((resolve) => (timer = setTimeout(resolve, limitMs)))]);
  clearTimeout(timer);
}
