import type { MqttClient } from 'mqtt';
import { writeToStream, type IConnackPacket, type IPublishPacket, type Packet } from 'mqtt-packet';
import { withTimeout } from '../../../kernel/withTimeout';
import { BrokerCapabilities, shortenServerKeepalive } from './brokerCapabilities';
import { openBrokerClient, type ConnectProgress } from './brokerClient';
import {
  BrokerError,
  CLOSED,
  getErrorFault,
  getReasonFault,
  NO_ACKNOWLEDGEMENT,
  packetTooLarge,
  unansweredSubscription,
  type BrokerFault,
} from './brokerFaults';
import { getClientOptions, MAX_PACKET_BYTES, type BrokerSettings, type MqttVersion } from './brokerSettings';
import { BackpressureController } from './backpressureController';
import { getProperties, type BrokerPublish } from './brokerPublish';
import type { PacedStream } from './pacedStream';
import { MqttPacketSizeScanner } from './mqttPacketSizeScanner';
import type { PublishOutcome } from './publishOutcome';
import { requestSubscription, waitForSilence } from './subscribing';
import { InFlightPublishes } from './inFlightPublishes';

/** A received message, and its packet identifier if it must be acknowledged (QoS 1). */
export interface Incoming {
  readonly packet: IPublishPacket;
  readonly messageId: number | undefined;
  /** See BrokerMessage. */
  readonly signal: AbortSignal;
}

/** The options of a network connection. */
interface MqttClientAdapterOptions {
  readonly settings: BrokerSettings;
  readonly version: MqttVersion;
  /**
   * The maximum time from the first TCP packet to the CONNACK, and from a SUBSCRIBE, or the last message received after
   * it, to the SUBACK.
   */
  readonly connectTimeoutMs: number;
  /**
   * Called for each message in order, without waiting for earlier ones. The message is acknowledged when this resolves,
   * and not if it rejects.
   */
  readonly onMessage: (incoming: Incoming) => Promise<void>;
}

const MAX_IN_PROGRESS = 500;
/**
 * The maximum total size of all messages in progress. A larger message is processed alone. Storing this much takes far
 * less than a second.
 */
const MAX_BYTES_IN_PROGRESS = 4 * 1024 * 1024;
/** The time for the broker to close the connection after our DISCONNECT. */
const DISCONNECT_TIMEOUT_MS = 500;

/**
 * One network connection to a broker, with its own client of the MQTT library. The library acknowledges a message
 * before it reads the next one. So that many messages can be stored concurrently, each QoS 1 message is presented to
 * the library as QoS 0, and this class writes the acknowledgement.
 */
export class MqttClientAdapter {
  /** Resolves with the reason when the connection is closed; never rejects. */
  readonly closed: Promise<BrokerFault>;
  private readonly closeController = new AbortController();
  /** Aborts when messages with QoS 1 are left to the broker: it sends them again on the next connection. */
  private readonly leaveController = new AbortController();
  private readonly client: MqttClient | undefined;
  private readonly stream: PacedStream | undefined;
  private readonly unacknowledged = new InFlightPublishes();
  /** The received messages in progress. */
  private readonly backpressure: BackpressureController;
  /** The packet identifiers of the QoS 1 messages that are presented to the library as QoS 0. */
  private messageIds = new WeakMap<IPublishPacket, number>();
  private connack: IConnackPacket | undefined;
  /** What the broker supports; its defaults before the CONNACK. */
  capabilities: BrokerCapabilities;
  /** Why the connection is being closed. */
  private fault: BrokerFault | undefined;
  /** How far the connection got before the first MQTT packet. */
  private progress: ConnectProgress | undefined;
  private readonly packetSizeScanner = new MqttPacketSizeScanner((bytes) => this.checkSize(bytes));
  /** The arrival time of the last message, on the monotonic clock. */
  private lastMessageAt = Number.NEGATIVE_INFINITY;
  private isClosing = false;
  /** Half of the keepalive interval, or of a shorter one that the broker requires. */
  private keepaliveIntervalMs: number;
  /** When the last ping was sent, on the monotonic clock. */
  private keepaliveSentAt = performance.now();
  private resolveClosed: (fault: BrokerFault) => void = () => {};

  /** Starts to connect. */
  constructor(private readonly options: MqttClientAdapterOptions) {
    this.closed = new Promise((resolve) => (this.resolveClosed = resolve));
    const { settings } = options;
    this.keepaliveIntervalMs = (settings.keepaliveSeconds * 1000) / 2;
    this.capabilities = new BrokerCapabilities(options.version, undefined);
    this.backpressure = new BackpressureController({
      maxMessages: MAX_IN_PROGRESS,
      maxBytes: MAX_BYTES_IN_PROGRESS,
      onReadingPaused: (isPaused) => this.setReadingPaused(isPaused),
      sendKeepalive: () => this.sendKeepalive(),
      getKeepaliveIntervalMs: () => this.keepaliveIntervalMs,
    });
    try {
      const { client, stream } = openBrokerClient(
        getClientOptions(settings, options.version, options.connectTimeoutMs),
        this.packetSizeScanner,
        (progress) => (this.progress = progress),
      );
      this.client = client;
      this.stream = stream;
      this.listen(client);
    } catch (error) {
      this.finish(getErrorFault(error)); // a key or certificate is invalid
    }
  }

  /** Resolves when the broker has accepted the connection; rejects with a BrokerError. */
  async waitUntilAccepted(): Promise<void> {
    const { client } = this;
    if (!client) throw new BrokerError(await this.closed);
    await new Promise<void>((resolve, reject) => {
      client.once('connect', () => resolve());
      void this.closed.then((fault) => reject(new BrokerError(fault)));
    });
  }

  /** Aborts when the connection is closed. */
  get signal(): AbortSignal {
    return this.closeController.signal;
  }

  /** Whether messages can be sent. */
  get isOpen(): boolean {
    return (
      !this.isClosing &&
      !this.closeController.signal.aborted &&
      this.client?.connected === true &&
      this.client.stream.writable
    );
  }

  /** Whether the broker sent a CONNACK. */
  get isAnswered(): boolean {
    return this.connack !== undefined;
  }

  /** Whether the broker had stored our session. */
  get isSessionPresent(): boolean {
    return this.connack?.sessionPresent === true;
  }

  /** The number of unacknowledged commands. */
  get inFlight(): number {
    return this.unacknowledged.commandCount;
  }

  /** The number of further messages that the broker accepts now. */
  get availableSlots(): number {
    return this.isOpen ? Math.max(0, this.capabilities.receiveMaximum - this.unacknowledged.count) : 0;
  }

  /**
   * Subscribes with QoS 1, with MQTT 5 without retained messages unless they are wanted. Returns the filters granted
   * only with QoS 0. Rejects with a BrokerError if the broker does not support or rejects a filter, or does not respond
   * in time, which restarts with each message: in a stored session, the SUBACK follows all messages that waited.
   */
  async subscribe(
    filters: readonly string[],
    subscriptionId: number | undefined,
    wantsRetained = false,
  ): Promise<string[]> {
    const { client } = this;
    if (filters.length === 0 || !client) return [];
    const fault = this.capabilities.findSubscriptionFault(filters, subscriptionId);
    if (fault) throw new BrokerError(fault);
    const suback = new AbortController(); // aborts the time limit when the outcome is known
    const isMqtt5 = this.options.version === '5';
    const subscribed = requestSubscription(client, { filters, isMqtt5, subscriptionId, wantsRetained });
    const failed = this.closed.then((fault) => Promise.reject(new BrokerError(fault)));
    const timedOut = waitForSilence(this.options.connectTimeoutMs, () => this.lastActivityAt, suback.signal);
    try {
      return await Promise.race([
        subscribed,
        failed,
        timedOut.then(() => Promise.reject(new BrokerError(unansweredSubscription(filters)))),
      ]);
    } finally {
      suback.abort();
    }
  }

  /**
   * Publishes, not retained, with the QoS of the settings; a message that is not a command with QoS 0 if the broker
   * supports no other. Returns false if no byte was sent. `onOutcome` is never called after the connection is closed.
   */
  publish(message: BrokerPublish, onOutcome: (outcome: PublishOutcome) => void): boolean {
    const { topic, payload, deadline } = message;
    const reservedSlots = deadline === undefined ? 1 : 0; // a message that is not a command leaves capacity for one
    if (!this.client || this.availableSlots <= reservedSlots) return false;
    const options = this.getPublishOptions(message);
    const packet = { cmd: 'publish', topic, payload, dup: false, retain: false, ...options } as const;
    const rejection = this.capabilities.findRejection(packet);
    if (rejection) {
      // The outcome is reported later, as for a sent message: the caller does not expect it during this call.
      setImmediate(() => this.isOpen && onOutcome(rejection));
      return true;
    }
    if (options.qos === 0) {
      const finish = this.unacknowledged.addWithoutId(onOutcome, deadline);
      this.client.publish(topic, payload, options, () => setImmediate(finish)); // never during this call
      return true;
    }
    // The callback of the library is not used, because the PUBACK contains the outcome.
    this.client.publish(topic, payload, options, () => {});
    this.unacknowledged.add(this.client.getLastMessageId(), onOutcome, deadline);
    return true;
  }

  /** Returns the QoS and the properties of a message, which is a command if it has a deadline. */
  private getPublishOptions(message: BrokerPublish): Pick<IPublishPacket, 'properties'> & { readonly qos: 0 | 1 } {
    const { settings, version } = this.options;
    const qos = message.deadline !== undefined || this.capabilities.supportsQos1 ? (settings.commandQos ?? 1) : 0;
    return { qos, ...(version === '5' && { properties: getProperties(message) }) };
  }

  /** Closes the connection if a command is unacknowledged long past its deadline: it uses up the in-flight limit. */
  failIfOverdue(now: number): void {
    if (this.backpressure.isReadingPaused) this.unacknowledged.excuseDelay(now);
    if (this.unacknowledged.hasOverdueCommand(now)) this.fail(NO_ACKNOWLEDGEMENT);
  }

  /**
   * Accepts no more messages, waits at most `limitMs` for those in progress, and disconnects. The session remains at
   * the broker. `keepsSession`: whether it is used again. Then messages with QoS 1 that are not being stored yet are
   * left to it.
   */
  async close(limitMs: number, keepsSession = true): Promise<void> {
    this.isClosing = true;
    if (keepsSession) this.leaveController.abort();
    const { client } = this;
    if (client && !this.closeController.signal.aborted && client.connected) {
      await this.backpressure.waitUntilIdle(limitMs);
      if (client.stream.writable) {
        writeToStream({ cmd: 'disconnect', reasonCode: 0 }, client.stream, {
          protocolVersion: client.options.protocolVersion,
        });
        client.stream.end();
        this.stream?.discard(); // the broker sends these messages again on the next connection
        await withTimeout(this.closed, Math.min(limitMs, DISCONNECT_TIMEOUT_MS), () => {});
      }
    }
    this.destroy();
    await this.closed;
  }

  /** Closes the connection immediately, with this reason. */
  fail(fault: BrokerFault): void {
    this.fault ??= fault;
    this.destroy();
  }

  /** Closes the connection immediately. */
  destroy(): void {
    this.client?.end(true);
  }

  /** Registers the handlers for packets, errors and the end of the connection. */
  private listen(client: MqttClient): void {
    client.handleMessage = (packet, done) => {
      this.processMessage(packet);
      done();
    };
    client.on('packetreceive', (packet) => this.handlePacket(packet));
    client.on('error', (error) => {
      this.fault ??= this.getConnackFault() ?? getErrorFault(error, this.progress);
      this.destroy();
    });
    client.on('close', () => this.finish(this.fault ?? CLOSED));
  }

  /** Evaluates a received packet before the library does. */
  private handlePacket(packet: Packet): void {
    this.sendKeepaliveIfDue();
    if (packet.cmd === 'publish') this.presentAsQos0(packet);
    else if (packet.cmd === 'puback') this.unacknowledged.resolve(packet.messageId ?? 0, packet.reasonCode ?? 0);
    else if (packet.cmd === 'connack') this.handleConnack(packet);
    else if (packet.cmd === 'disconnect') this.fault ??= getReasonFault(packet.reasonCode ?? 0, true);
  }

  /** Records what the broker supports. */
  private handleConnack(connack: IConnackPacket): void {
    const { settings, version } = this.options;
    this.connack = connack;
    this.keepaliveIntervalMs = (shortenServerKeepalive(connack, settings.keepaliveSeconds) * 1000) / 2;
    this.capabilities = new BrokerCapabilities(version, connack);
  }

  /** Presents a QoS 1 message to the library as one that needs no acknowledgement. */
  private presentAsQos0(packet: IPublishPacket): void {
    this.lastMessageAt = performance.now();
    if (packet.qos !== 1) return;
    this.messageIds.set(packet, packet.messageId ?? 0);
    packet.qos = 0;
  }

  /** Starts to process a message that the library passed on. */
  private processMessage(packet: IPublishPacket): void {
    if (this.closeController.signal.aborted) return;
    if (!this.connack) {
      this.fail(getErrorFault(new Error('a message before CONNACK')));
      return;
    }
    if (this.isClosing) {
      this.stream?.stopReading(); // this message is not acknowledged, so the broker stores it
      return;
    }
    const messageId = this.messageIds.get(packet);
    const { signal } = messageId === undefined ? this.closeController : this.leaveController;
    void this.backpressure.run(
      packet.payload.length,
      async () => await this.deliverAndAcknowledge({ packet, messageId, signal }),
    );
  }

  /** Passes the message to `onMessage`, and acknowledges it if that resolves and the message has QoS 1. */
  private async deliverAndAcknowledge(incoming: Incoming): Promise<void> {
    try {
      await this.options.onMessage(incoming);
      if (incoming.messageId !== undefined) this.acknowledge(incoming.messageId);
    } catch {
      // The `onMessage` handler has logged the reason. The broker sends the message again on the next connection.
    }
  }

  /** Writes a PUBACK, unless the connection is closed. */
  private acknowledge(messageId: number): void {
    const { client } = this;
    if (!client || this.closeController.signal.aborted || !client.stream.writable) return;
    writeToStream({ cmd: 'puback', messageId, reasonCode: 0 }, client.stream, {
      protocolVersion: client.options.protocolVersion,
    });
  }

  /**
   * Sends a ping and restarts the keepalive timer of the library. While reading is paused or lags behind, the responses
   * of the broker wait too: without the restart, the library would consider the connection lost although it is alive.
   */
  private sendKeepalive(): void {
    this.keepaliveSentAt = performance.now();
    this.client?.sendPing();
    this.client?.reschedulePing(true);
  }

  /** Sends a ping after half the keepalive interval, even while packets arrive: see sendKeepalive. */
  private sendKeepaliveIfDue(): void {
    if (this.client?.connected === true && performance.now() - this.keepaliveSentAt > this.keepaliveIntervalMs)
      this.sendKeepalive();
  }

  /** Pauses reading while too much is in progress. */
  private setReadingPaused(isPaused: boolean): void {
    if (isPaused) {
      this.stream?.stopReading();
      return;
    }
    this.lastMessageAt = performance.now(); // nothing could arrive until now
    if (!this.isClosing) this.stream?.resumeReading();
  }

  /** Closes the connection if a packet is too large: MQTT 3.1.1 cannot announce a limit to the broker. */
  private checkSize(bytes: number): void {
    if (bytes > MAX_PACKET_BYTES) this.fail(packetTooLarge(bytes, MAX_PACKET_BYTES));
  }

  /** The arrival time of the last message. It is now while a packet is incomplete, and while reading is paused. */
  private get lastActivityAt(): number {
    return this.backpressure.isReadingPaused || this.packetSizeScanner.isAmidPacket
      ? performance.now()
      : this.lastMessageAt;
  }

  /** The fault in the CONNACK, which is more precise than the library's error. */
  private getConnackFault(): BrokerFault | undefined {
    const code = this.options.version === '5' ? this.connack?.reasonCode : this.connack?.returnCode;
    return code === undefined || code === 0 ? undefined : getReasonFault(code, this.options.version === '5');
  }

  /** Records that the connection is closed, and why. Only the first call has an effect. */
  private finish(fault: BrokerFault): void {
    if (this.closeController.signal.aborted) return;
    this.backpressure.dispose();
    this.unacknowledged.clear();
    this.closeController.abort();
    this.leaveController.abort();
    this.resolveClosed(fault);
  }
}
