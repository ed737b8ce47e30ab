import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { connect as connectMqtt, type MqttClient } from 'mqtt';
import { generate, writeToStream, type IConnackPacket, type IPublishPacket, type Packet } from 'mqtt-packet';
import { BrokerError, CLOSED, faultOfError, faultOfReason, NO_ACKNOWLEDGEMENT, packetTooLarge, refusedSubscription, unansweredSubscription, type BrokerFault } from './brokerFaults';
import { clientOptionsOf, type BrokerSettings, type MqttVersion } from './brokerSettings';
import { IncomingFlow } from './incomingFlow';
import { PacketSizes } from './packetSizes';
import { tooLarge, type PublishOutcome } from './publishOutcome';
import { Unacknowledged } from './unacknowledged';

/** What came in, and its packet identifier if it must be acknowledged (QoS 1). */
export interface Incoming {
  readonly packet: IPublishPacket;
  readonly messageId: number | undefined;
}

/** What a network connection needs. */
export interface BrokerConnectionOptions {
  readonly settings: BrokerSettings;
  readonly version: MqttVersion;
  /** From the first packet of TCP to the broker's answer, and from a SUBSCRIBE to its answer. */
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
  /** Unix milliseconds; none for what is no command. */
  readonly deadline?: number | undefined;
  /** Whole seconds, with MQTT 5. */
  readonly expirySeconds?: number | undefined;
  readonly responseTopic?: string | undefined;
  readonly correlationData?: Buffer | undefined;
}

const MOST_UNDER_WAY = 500;
/** Of all messages that are under way, and of each packet. */
const MOST_BYTES = 16 * 1024 * 1024;
/** Below the number of packet identifiers, for subscriptions need some too. */
const LARGEST_RECEIVE_MAXIMUM = 65_000;

/**
 * One network connection to a broker, over one client of the library that is thrown away with it. The library acknowledges a message
 * before it looks at the next one; so that many can be stored side by side, it is shown each as one of QoS 0, and the acknowledgement is written here.
 */
export class BrokerConnection {
  /** Resolves with the reason when it is over; never rejects. */
  readonly closed: Promise<BrokerFault>;
  private readonly over = new AbortController();
  private readonly client: MqttClient | undefined;
  private readonly unacknowledged = new Unacknowledged();
  private readonly flow: IncomingFlow;
  private messageIds = new WeakMap<IPublishPacket, number>();
  private connack: IConnackPacket | undefined;
  private fault: BrokerFault | undefined;
  /** How far it came before the first packet of MQTT. */
  private progress: 'reached' | 'secured' | undefined;
  private isDeaf = false;
  private readonly breatheMs: number;
  private breathedAt = performance.now();
  private resolveClosed: (fault: BrokerFault) => void = () => {};

  /** Begins to connect. */
  constructor(private readonly options: BrokerConnectionOptions) {
    this.closed = new Promise((resolve) => (this.resolveClosed = resolve));
    const { settings, mostUnderWay: mostMessages = MOST_UNDER_WAY } = options;
    this.breatheMs = (settings.keepaliveSeconds * 1000) / 2;
    this.flow = new IncomingFlow({ mostMessages, mostBytes: MOST_BYTES, breathe: () => this.breathe(), breatheMs: this.breatheMs });
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
    return Math.min(this.connack?.properties?.receiveMaximum ?? LARGEST_RECEIVE_MAXIMUM, LARGEST_RECEIVE_MAXIMUM);
  }

  /** How many commands are not acknowledged yet. */
  get inFlight(): number {
    return this.unacknowledged.commandCount;
  }

  /** How many more messages of ours the broker takes now. */
  get room(): number {
    return this.isOpen ? Math.max(0, this.receiveMaximum - this.unacknowledged.count) : 0;
  }

  /**
   * Subscribes with QoS 1, without retained messages where that can be said. Answers those that the broker grants only with QoS 0.
   * Rejects with a BrokerError if the broker refuses one, or does not answer in time.
   */
  async subscribe(filters: readonly string[], subscriptionId: number | undefined): Promise<string[]> {
    if (filters.length === 0) {
      this.flow.begin();
      return [];
    }
    const isMqtt5 = this.options.version === '5';
    const options = { qos: 1 as const, ...(isMqtt5 && { rh: 2 }), ...(isMqtt5 && subscriptionId !== undefined && { properties: { subscriptionIdentifier: subscriptionId } }) };
    let timer: NodeJS.Timeout | undefined;
    const subscribed = new Promise<string[]>((resolve, reject) => {
      timer = setTimeout(() => reject(new BrokerError(unansweredSubscription(filters))), this.options.connectTimeoutMs);
      this.client?.subscribe([...filters], options, (error, _, packet) => {
        if (error) reject(new BrokerError(this.fault ?? refusedSubscription(filters)));
        else resolve(filters.filter((_filter, at) => packet?.granted[at] === 0));
      });
    });
    try {
      return await Promise.race([subscribed, this.closed.then((fault) => Promise.reject(new BrokerError(fault)))]);
    } finally {
      this.flow.begin();
      clearTimeout(timer);
    }
  }

  /** Publishes with QoS 1, not retained. False: not a byte left. `onOutcome` is never called once the connection is over. */
  publish(message: BrokerPublish, onOutcome: (outcome: PublishOutcome) => void): boolean {
    const { topic, payload, deadline } = message;
    // What is no command leaves room for one.
    if (!this.client || this.room <= (deadline === undefined ? 1 : 0)) return false;
    const properties = this.options.version === '5' ? propertiesOf(message) : undefined;
    const bytes = this.excess({ cmd: 'publish', topic, payload, qos: 1, dup: false, retain: false, messageId: 1, ...(properties && { properties }) });
    if (bytes) {
      setImmediate(() => this.isOpen && onOutcome(tooLarge(bytes.size, bytes.most)));
      return true;
    }
    this.client.publish(topic, payload, { qos: 1, ...(properties && { properties }) }, () => {}); // its outcome is in the PUBACK
    this.unacknowledged.add(this.client.getLastMessageId(), onOutcome, deadline);
    return true;
  }

  /** Ends it if the broker owes an acknowledgement of a command past its deadline: those would use up what may be under way. */
  demand(now: number): void {
    if (this.unacknowledged.isOverdue(now, this.flow.isHeld)) this.fail(NO_ACKNOWLEDGEMENT);
  }

  /** Takes no more messages, waits at most `limitMs` for those under way, and says goodbye; the session stays at the broker. */
  async close(limitMs: number): Promise<void> {
    this.isDeaf = true;
    const { client } = this;
    if (client && !this.over.signal.aborted && client.connected) {
      await this.flow.idle(limitMs);
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
    const sizes = new PacketSizes((bytes) => bytes > MOST_BYTES && this.fail(packetTooLarge(bytes, MOST_BYTES)));
    client.stream.on('data', (piece: Uint8Array) => sizes.add(piece));
    client.on('packetreceive', (packet) => this.received(packet));
    client.on('error', (error) => {
      this.fault ??= this.refusal() ?? faultOfError(error, this.progress);
      this.destroy();
    });
    client.on('close', () => this.end(this.fault ?? CLOSED));
  }

  private received(packet: Packet): void {
    this.breatheIfDue();
    if (packet.cmd === 'publish') return this.conceal(packet);
    if (packet.cmd === 'puback') return this.unacknowledged.settle(packet.messageId ?? 0, packet.reasonCode ?? 0);
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
    void this.flow.pass(packet.payload.length, async () => await this.handle({ packet, messageId }), done);
  }

  private async handle(incoming: Incoming): Promise<void> {
    try {
      await this.options.message(incoming);
      if (incoming.messageId !== undefined) this.acknowledge(incoming.messageId);
    } catch {
      // The link has written down why; the broker sends it again on the next connection.
    }
  }

  private acknowledge(messageId: number): void {
    const { client } = this;
    if (!client || this.over.signal.aborted || !client.stream.writable) return;
    writeToStream({ cmd: 'puback', messageId, reasonCode: 0 }, client.stream, { protocolVersion: client.options.protocolVersion });
  }

  /** While nothing is read, or only what was sent long ago, what the broker answers waits too: the link breathes by itself, for it is not dead. */
  private breathe(): void {
    this.breathedAt = performance.now();
    this.client?.sendPing();
    this.client?.reschedulePing(true);
  }

  private breatheIfDue(): void {
    if (this.client?.connected === true && performance.now() - this.breathedAt > this.breatheMs) this.breathe();
  }

  private fail(fault: BrokerFault): void {
    this.fault ??= fault;
    this.destroy();
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

  private end(fault: BrokerFault): void {
    if (this.over.signal.aborted) return;
    this.flow.end();
    this.unacknowledged.clear();
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

async function within(promise: Promise<unknown>, limitMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([promise, new Promise<void>((resolve) => (timer = setTimeout(resolve, limitMs)))]);
  clearTimeout(timer);
}
