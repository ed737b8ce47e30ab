import { createHash } from 'node:crypto';
import type { IPublishPacket } from 'mqtt-packet';
import type { Clock } from '../../../kernel/clock';
import type { Logger } from '../../../kernel/logger';
import { pause } from '../../../kernel/pause';
import type { Arrivals } from '../../arrivals';
import type { SendResult, UplinkIdentity } from '../../connector';
import { BackOff, type BrokerBackoff } from './backOff';
import { Backlog } from './backlog';
import { BrokerConnection, type Incoming } from './brokerConnection';
import { BrokerError, CLOSED, closedOn, type BrokerFault } from './brokerFaults';
import type { BrokerSettings, MqttVersion } from './brokerSettings';
import type { BrokerHandlers, BrokerMessage, BrokerPublication, BrokerSession } from './brokerTraffic';
import { Fence } from './fence';
import type { PublishOutcome } from './publishOutcome';
import { freshSubscriptionId, WaitedMessages } from './waitedMessages';

/** What a link needs. */
export interface BrokerLinkOptions {
  readonly settings: BrokerSettings;
  /** Subscribed with QoS 1. */
  readonly filters: readonly string[];
  readonly arrivals: Arrivals;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of every line of the log. */
  readonly fields: object;
  readonly handlers: BrokerHandlers;
  readonly backoff?: BrokerBackoff;
  /** For the broker to let us in, and then to answer the subscription; 10 s unless given. */
  readonly connectTimeoutMs?: number;
  /** How long `stop` waits for messages that are being stored; 5 s unless given. */
  readonly drainMs?: number;
  /** No more is read while so many messages are under way; 500 unless given. */
  readonly mostUnderWay?: number;
}

interface Dialled {
  readonly connection: BrokerConnection;
  readonly isMqtt5: boolean;
  readonly inbound: Inbound;
}

/** What is known of the messages that a connection brings. */
interface Inbound {
  /** What to subscribe with; undefined where the broker cannot tell by which subscription a message came. */
  readonly subscriptionId: number | undefined;
  readonly fence: Fence;
  readonly backlog: Backlog;
  readonly waited: WaitedMessages;
  /** When it began, and what of others the broker surely knows as acknowledged; stamps of Arrivals. */
  readonly began: number;
  readonly acknowledgedBefore: number;
}

/** A promise, and how to resolve it. */
class Gate {
  isOpen = false;
  private pass: () => void = () => {};
  readonly opened = new Promise<void>((resolve) => (this.pass = resolve));

  readonly open = (): void => {
    this.isOpen = true;
    this.pass();
  };
}

const CONNECT_TIMEOUT = 10_000;
const DRAIN = 5000;
/** How often acknowledgements that are owed are looked for. */
const DEMAND = 1000;
/** Within so long a broker has sent again all that it may not know as acknowledged of the connection before. */
const REPEATED = 60_000;
const DIGEST_LENGTH = 22;
/** What brokers of 3.1.1 do when they are spoken to in MQTT 5. */
const MEANS_OLDER: ReadonlySet<string> = new Set(['unsupported_protocol', 'closed', 'connection_lost', 'protocol_error']);

let sessions = 0;

/** A lasting link to a broker: it connects again whenever the connection is lost, and never publishes anything a second time. */
export class BrokerLink {
  private readonly stopping = new AbortController();
  private readonly backOff: BackOff;
  private running: Promise<void> | undefined;
  private connection: BrokerConnection | undefined;
  private current: (Dialled & { readonly session: BrokerSession }) | undefined;
  /** What the broker surely speaks. */
  private known: MqttVersion | undefined;
  /** Whether a fence ever came back from it. */
  private isFenceProven = false;
  private acknowledgedBefore = 0;

  constructor(private readonly options: BrokerLinkOptions) {
    this.backOff = new BackOff(options.backoff);
    this.known = options.settings.protocol;
  }

  /** Begins to connect; returns at once. */
  start(): void {
    this.running ??= this.run();
  }

  /** Takes no more messages, waits for what is under way, and signs off; the session stays at the broker. Resolves after the last `down`. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.connection?.close(this.options.drainMs ?? DRAIN);
    await this.running;
  }

  /** Makes the broker forget the session, as well as that can be done. Call it after `stop`. */
  async forget(): Promise<void> {
    const { settings, log, fields } = this.options;
    const connection = this.dial({ ...settings, cleanSession: true }, this.known ?? '5', async () => {});
    try {
      await connection.opened();
    } catch (err) {
      log.info({ ...fields, err }, 'broker.session_left'); // the broker lets it expire
    }
    await connection.close(this.options.drainMs ?? DRAIN);
  }

  /** The session that can be published on; undefined: none. */
  get session(): BrokerSession | undefined {
    return this.current?.connection.isOpen === true ? this.current.session : undefined;
  }

  /** How many commands were published and are not acknowledged. */
  get inFlight(): number {
    return this.current?.connection.inFlight ?? 0;
  }

  /** How many more commands may be published now, where at most so many shall be unacknowledged; no more than the broker takes. */
  capacity(maxInFlight: number): number {
    return Math.max(0, Math.min(maxInFlight - this.inFlight, this.current?.connection.room ?? 0));
  }

  /** Publishes on the session there is. `not_sent`: provably no byte left. `onOutcome` is never called once the session is over: then nobody knows. */
  publish(message: BrokerPublication, onOutcome: (outcome: PublishOutcome) => void): SendResult {
    // An expiry is in whole seconds: what has less left than one would live past its deadline at the broker.
    const expirySeconds = Math.floor((message.deadline - this.options.clock.now()) / 1000);
    if (expirySeconds < 1 || !this.current) return 'not_sent';
    return this.current.connection.publish({ ...message, expirySeconds }, onOutcome) ? 'sent' : 'not_sent';
  }

  /**
   * Resolves when every message that was at the broker before the call has been given its stamp, as far as that can be known: at once if
   * no messages pile up, else when a message to ourselves has come back; at most 2 s later, and when the session is over. Never rejects.
   */
  async caughtUp(): Promise<void> {
    await this.current?.inbound.backlog.caughtUp();
  }

  private async run(): Promise<void> {
    const { log, fields, handlers } = this.options;
    while (!this.stopping.signal.aborted) {
      const begun = this.options.clock.monotonic();
      const fault = this.explained(await this.attend());
      const isStopped = this.stopping.signal.aborted;
      try {
        await handlers.down(isStopped ? '' : fault.message, !isStopped && fault.isFatal, isStopped ? '' : fault.code);
      } catch (err) {
        log.error({ ...fields, err }, 'broker.down_failed');
      }
      if (isStopped) break;
      const retryMs = this.backOff.next(fault.isFatal, this.options.clock.monotonic() - begun);
      log.warn({ ...fields, reason: fault.code, retry_ms: Math.round(retryMs) }, 'broker.lost');
      await pause(retryMs, this.stopping.signal);
    }
  }

  private explained(fault: BrokerFault): BrokerFault {
    return fault === CLOSED && this.connection?.isAnswered === true ? closedOn(this.options.settings.clientId) : fault;
  }

  /** One session, from the first attempt to its end; answers why it is over. */
  private async attend(): Promise<BrokerFault> {
    try {
      const gate = new Gate();
      const dialled = await this.connect(gate);
      const atMostOnce = await dialled.connection.subscribe(this.options.filters, dialled.inbound.subscriptionId);
      dialled.inbound.waited.begin();
      return await this.serve(dialled, atMostOnce.length > 0, gate.open);
    } catch (error) {
      return this.faultOf(error);
    } finally {
      this.current = undefined;
      this.connection?.destroy();
    }
  }

  private async serve(dialled: Dialled, isAtMostOnce: boolean, open: () => void): Promise<BrokerFault> {
    const { handlers, log, fields } = this.options;
    const { connection, isMqtt5, inbound } = dialled;
    sessions += 1;
    const session = { number: sessions, isMqtt5, isAtMostOnce };
    log.info({ ...fields, session: session.number, is_mqtt_5: isMqtt5, is_at_most_once: isAtMostOnce, is_resumed: connection.isSessionPresent }, 'broker.connected');
    await handlers.up(session);
    this.current = { ...dialled, session };
    open();
    if (this.session) handlers.ready();
    const demanding = setInterval(() => connection.demand(this.options.clock.now()), DEMAND);
    const fault = await connection.closed;
    clearInterval(demanding);
    this.isFenceProven ||= inbound.fence.isProven;
    if (this.options.arrivals.stamp() - inbound.began >= REPEATED) this.acknowledgedBefore = inbound.began;
    return fault;
  }

  /** Connects with the newest version that the broker speaks. Rejects with a BrokerError. */
  private async connect(gate: Gate): Promise<Dialled> {
    if (this.known) return await this.attempt(this.known, gate);
    try {
      const dialled = await this.attempt('5', gate);
      this.known = '5';
      return dialled;
    } catch (error) {
      const isAnswered = this.connection?.isAnswered === true;
      const { code } = this.faultOf(error);
      if (!MEANS_OLDER.has(code) || (isAnswered && code !== 'unsupported_protocol')) throw error;
      const dialled = await this.attempt('3.1.1', gate);
      if (isAnswered) this.known = '3.1.1'; // else it may have been on its way down
      return dialled;
    }
  }

  private async attempt(version: MqttVersion, gate: Gate): Promise<Dialled> {
    let inbound: Inbound | undefined;
    // Made with the first message, if that comes before we know that we are in.
    const inboundOf = (): Inbound => (inbound ??= this.inboundOf(connection));
    const connection = this.dial(this.options.settings, version, async (incoming) => await this.take(connection, inboundOf(), incoming, gate));
    this.connection = connection;
    if (this.stopping.signal.aborted) connection.destroy();
    await connection.opened();
    return { connection, isMqtt5: version === '5', inbound: inboundOf() };
  }

  private inboundOf(connection: BrokerConnection): Inbound {
    const { settings, clock, log, fields } = this.options;
    const subscriptionId = connection.hasSubscriptionIds ? freshSubscriptionId(clock.now()) : undefined;
    const fence = new Fence(connection, settings.clientId, subscriptionId);
    const backlog = new Backlog(fence, clock, connection.signal);
    const onMissingIds = (): void => log.warn(fields, 'broker.no_subscription_ids');
    const [began, acknowledgedBefore] = [this.options.arrivals.stamp(), this.acknowledgedBefore];
    return { subscriptionId, fence, backlog, began, acknowledgedBefore, waited: new WaitedMessages({ connection, subscriptionId, fence, backlog, isFenceProven: this.isFenceProven, clock, onMissingIds }) };
  }

  private dial(settings: BrokerSettings, version: MqttVersion, message: (incoming: Incoming) => Promise<void>): BrokerConnection {
    const { connectTimeoutMs = CONNECT_TIMEOUT, mostUnderWay } = this.options;
    return new BrokerConnection({ settings, version, connectTimeoutMs, message, ...(mostUnderWay !== undefined && { mostUnderWay }) });
  }

  private async take(connection: BrokerConnection, { fence, backlog, waited, acknowledgedBefore }: Inbound, { packet, messageId }: Incoming, gate: Gate): Promise<void> {
    const { signal } = connection;
    if (fence.take(packet)) return;
    const isBuffered = waited.hasWaited(packet);
    const identity = identityOf(packet, messageId, acknowledgedBefore);
    const message = this.messageOf(packet, identity, isBuffered, signal);
    if (messageId !== undefined) backlog.enter();
    try {
      // A listener for each message would stay until the end of the link.
      if (!gate.isOpen) await Promise.race([gate.opened, aborted(signal)]);
      signal.throwIfAborted();
      await this.options.handlers.message(message);
    } catch (err) {
      if (!signal.aborted) this.options.log.error({ ...this.options.fields, topic: packet.topic, err }, 'broker.message_failed');
      throw err;
    } finally {
      if (messageId !== undefined) backlog.leave();
    }
  }

  private messageOf(packet: IPublishPacket, identity: UplinkIdentity, isBuffered: boolean, signal: AbortSignal): BrokerMessage {
    const { topic, retain, properties } = packet;
    const payload = payloadOf(packet);
    const receivedAt = this.options.arrivals.stamp();
    return { topic, payload, qos: identity.kind === 'none' ? packet.qos : 1, retained: retain, isBuffered, receivedAt, identity, correlationData: properties?.correlationData, signal };
  }

  private faultOf(error: unknown): BrokerFault {
    if (error instanceof BrokerError) return error.fault;
    this.options.log.error({ ...this.options.fields, err: error }, 'broker.session_failed');
    return { code: 'not_ready', message: 'the server could not take the session up; it tries again', isFatal: false };
  }
}

function identityOf(packet: IPublishPacket, messageId: number | undefined, acknowledgedBefore: number): UplinkIdentity {
  if (messageId === undefined) return { kind: 'none' };
  return { kind: 'delivery', slot: String(messageId), digest: digestOf(packet.topic, payloadOf(packet)), isRepetition: packet.dup, ...(acknowledgedBefore > 0 && { acknowledgedBefore }) };
}

function payloadOf({ payload }: IPublishPacket): Buffer {
  return Buffer.isBuffer(payload) ? payload : Buffer.from(payload);
}

function digestOf(topic: string, payload: Buffer): string {
  return createHash('sha256').update(topic).update('\0').update(payload).digest('base64url').slice(0, DIGEST_LENGTH);
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}
