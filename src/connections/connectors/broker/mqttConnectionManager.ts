import type { Clock } from '../../../kernel/clock';
import type { Logger } from '../../../kernel/logger';
import type { MonotonicTimestamps } from '../../monotonicTimestamps';
import type { SendResult } from '../../connector';
import type { BrokerBackoff } from './backOff';
import { createInboundState, type InboundState } from './inboundState';
import { MqttClientAdapter, type Incoming } from './mqttClientAdapter';
import {
  BrokerError,
  CLOSED,
  closedBeforeSubscription,
  createClosedFault,
  OLDER_VERSION_FAULTS,
  type BrokerFault,
} from './brokerFaults';
import type { BrokerSettings, MqttVersion } from './brokerSettings';
import type { BrokerHandlers, BrokerPublication, BrokerSession, SubscribedSession } from './brokerTraffic';
import { getIdentity, toBrokerMessage } from './messageIdentity';
import { ReconnectDelay } from './reconnectDelay';
import type { PublishOutcome } from './publishOutcome';

/** The options of MqttConnectionManager. */
interface MqttConnectionManagerOptions {
  readonly settings: BrokerSettings;
  /** The topic filters to subscribe to, with QoS 1. */
  readonly filters: readonly string[];
  /** Whether the broker should send retained messages at each subscription; over MQTT 3.1.1 it always does. */
  readonly wantsRetained?: boolean;
  /** Creates the arrival times of messages. */
  readonly arrivals: MonotonicTimestamps;
  readonly clock: Clock;
  readonly log: Logger;
  /** Fields that are added to every log line. */
  readonly fields: object;
  readonly handlers: BrokerHandlers;
  readonly backoff?: BrokerBackoff;
  /**
   * The time for the broker to accept the connection, and then to acknowledge the subscription, milliseconds; default
   * 10 s.
   */
  readonly connectTimeoutMs?: number;
  /** How long `stop` waits for messages that are being stored, milliseconds; default 5 s. */
  readonly drainMs?: number;
}

/** An adapter that the broker accepted, and the state for its messages. */
interface AcceptedSession {
  readonly adapter: MqttClientAdapter;
  readonly inbound: InboundState;
}

const CONNECT_TIMEOUT_MS = 10_000;
const DEFAULT_DRAIN_MS = 5000;
/** How often overdue acknowledgements are checked, milliseconds. */
const OVERDUE_CHECK_INTERVAL_MS = 1000;
/**
 * The time in milliseconds within which a broker has repeated all messages of the previous connection whose
 * acknowledgements it did not receive.
 */
const REDELIVERY_MS = 60_000;

/** The number of the newest session. It is global, because session numbers are unique over all broker connections. */
let lastSessionNumber = 0;

/**
 * Maintains a network connection to a broker: it reconnects whenever the network connection is lost, and never
 * publishes a message twice. A barrier message is a message that this server sends to itself through the broker
 * (MessageBarrier): when it returns, all messages that were at the broker before it have arrived.
 */
export class MqttConnectionManager {
  private readonly stopping = new AbortController();
  private readonly reconnectDelay: ReconnectDelay;
  private running: Promise<void> | undefined;
  private adapter: MqttClientAdapter | undefined;
  /** The session whose subscriptions are active; undefined while there is none. */
  private current: (AcceptedSession & { readonly session: SubscribedSession }) | undefined;
  /** The version that the broker is known to support. */
  private confirmedVersion: MqttVersion | undefined;
  /** Whether this broker ever returned a barrier message. */
  private isBarrierSupported = false;
  /** Acknowledgements before this time certainly reached the broker; 0 if unknown. See InboundState. */
  private acknowledgedBefore = 0;

  constructor(private readonly options: MqttConnectionManagerOptions) {
    this.reconnectDelay = new ReconnectDelay(options.clock, options.backoff);
    this.confirmedVersion = options.settings.protocol;
  }

  /** Starts to connect; returns immediately. */
  start(): void {
    this.running ??= this.run();
  }

  /**
   * Accepts no more messages, waits for those that are being stored, and disconnects; the session remains at the
   * broker. `keepsSession`: whether it is used again; otherwise the messages in progress are stored first. Resolves
   * after the last `onDown`.
   */
  async stop(keepsSession = true): Promise<void> {
    this.stopping.abort();
    await this.adapter?.close(this.options.drainMs ?? DEFAULT_DRAIN_MS, keepsSession);
    await this.running;
  }

  /** Makes the broker delete the session by connecting with a clean one, if reachable. Call it after `stop`. */
  async forget(): Promise<void> {
    const { log, fields } = this.options;
    let failure = await this.deleteSession(this.confirmedVersion ?? '5');
    const mayNeedOlderVersion = failure && !this.confirmedVersion && OLDER_VERSION_FAULTS.has(failure.code);
    if (mayNeedOlderVersion) failure = await this.deleteSession('3.1.1');
    // The broker deletes the session when it expires; over MQTT 3.1.1 it may keep it.
    if (failure) log.info({ ...fields, reason: failure.code, err: failure.message }, 'broker.session_not_deleted');
  }

  /** Connects with a clean session and disconnects. Returns why that failed; undefined if it succeeded. */
  private async deleteSession(version: MqttVersion): Promise<BrokerFault | undefined> {
    const adapter = this.createAdapter({ ...this.options.settings, cleanSession: true }, version, async () => {});
    try {
      await adapter.waitUntilAccepted();
      return undefined;
    } catch (error) {
      return this.toFault(error);
    } finally {
      await adapter.close(this.options.drainMs ?? DEFAULT_DRAIN_MS);
    }
  }

  /** Reports that a command waits for a session: the next connection attempt starts at once, at most one a second. */
  connectSoon(): void {
    if (!this.session) this.reconnectDelay.endForCommand();
  }

  /** The session on which messages can be published; undefined if there is none. */
  get session(): SubscribedSession | undefined {
    return this.current?.adapter.isOpen === true ? this.current.session : undefined;
  }

  /** The number of published messages that are not acknowledged. */
  get inFlight(): number {
    return this.current?.adapter.inFlight ?? 0;
  }

  /**
   * Returns how many more messages may be published now, if at most `maxInFlight` may be unacknowledged and within the
   * limit of the broker.
   */
  capacity(maxInFlight: number): number {
    return Math.max(0, Math.min(maxInFlight - this.inFlight, this.current?.adapter.availableSlots ?? 0));
  }

  /**
   * Publishes on the current session. `not_sent`: provably no byte was sent. `onOutcome` is never called after the
   * session is closed: then the outcome is unknown.
   */
  publish(message: BrokerPublication, onOutcome: (outcome: PublishOutcome) => void): SendResult {
    // The expiry is in whole seconds: with less than one second left, the broker would keep the message for too long.
    const expirySeconds = Math.floor((message.deadline - this.options.clock.now()) / 1000);
    if (expirySeconds < 1 || !this.current) return 'not_sent';
    return this.current.adapter.publish({ ...message, expirySeconds }, onOutcome) ? 'sent' : 'not_sent';
  }

  /**
   * Resolves when every message that was at the broker before the call has arrived and has its arrival time, as far as
   * that can be determined: immediately if there is no backlog, otherwise when a barrier message has returned, after at
   * most 2 s, or when the session is closed. Never rejects.
   */
  async waitForBacklog(): Promise<void> {
    await this.current?.inbound.backlogDetector.waitForBacklog();
  }

  /** Runs one session after another, with a delay after each one, until `stop` is called. */
  private async run(): Promise<void> {
    const { log, fields, handlers } = this.options;
    while (!this.stopping.signal.aborted) {
      this.reconnectDelay.attemptStarted();
      const fault = await this.runSession();
      const isStopped = this.stopping.signal.aborted;
      try {
        await handlers.onDown(isStopped ? '' : fault.message, !isStopped && fault.isFatal, isStopped ? '' : fault.code);
      } catch (err) {
        log.error({ ...fields, err }, 'broker.disconnect_handler_failed');
      }
      if (isStopped) break;
      const retryMs = this.reconnectDelay.next(this.adapter?.isAnswered === true, fault.isFatal);
      log.warn({ ...fields, reason: fault.code, retry_ms: Math.round(retryMs) }, 'broker.disconnected');
      await this.reconnectDelay.wait(retryMs, fault.isFatal, this.stopping.signal);
    }
  }

  /**
   * Returns the fault with its probable causes if the broker accepted the connection and closed it without a reason;
   * other faults are returned unchanged.
   */
  private explainClosedFault(fault: BrokerFault, { isSubscribed }: { isSubscribed: boolean }): BrokerFault {
    if (fault !== CLOSED || this.adapter?.isAnswered !== true) return fault;
    const { settings, filters } = this.options;
    return isSubscribed ? createClosedFault(settings.clientId) : closedBeforeSubscription(settings.clientId, filters);
  }

  /** Runs one session, from the first attempt to its end. Returns why it ended. */
  private async runSession(): Promise<BrokerFault> {
    let accepted: AcceptedSession | undefined;
    try {
      accepted = await this.connect();
      const { adapter, inbound } = accepted;
      const atMostOnceFilters = await adapter.subscribe(
        this.options.filters,
        inbound.subscriptionId,
        this.options.wantsRetained,
      );
      inbound.bufferedMessageDetector.startDetection();
      await inbound.setup.run();
      const warnings = adapter.capabilities.listWarnings(this.options.settings, atMostOnceFilters);
      const fault = await this.runUntilClosed(accepted, warnings);
      return this.explainClosedFault(fault, { isSubscribed: true });
    } catch (error) {
      return this.explainClosedFault(this.toFault(error), { isSubscribed: false });
    } finally {
      this.current = undefined;
      this.adapter?.destroy();
      await accepted?.inbound.setup.waitUntilSettled();
    }
  }

  /**
   * Announces the session to the handlers, and waits until it is closed. Returns why it was closed. `warnings`: see
   * SubscribedSession.
   */
  private async runUntilClosed(accepted: AcceptedSession, warnings: readonly string[]): Promise<BrokerFault> {
    const { handlers, log, fields } = this.options;
    const { adapter, inbound } = accepted;
    const session = { ...inbound.session, warnings };
    log.info(
      {
        ...fields,
        session: session.number,
        is_mqtt_5: session.isMqtt5,
        warnings,
        is_resumed: adapter.isSessionPresent,
      },
      'broker.connected',
    );
    this.current = { ...accepted, session };
    const hasClosedMeanwhile = this.session === undefined; // while the session was set up
    if (!hasClosedMeanwhile) handlers.onReady();
    const overdueTimer = setInterval(() => adapter.failIfOverdue(this.options.clock.now()), OVERDUE_CHECK_INTERVAL_MS);
    const fault = await adapter.closed;
    clearInterval(overdueTimer);
    this.isBarrierSupported ||= inbound.barrier.hasReturned;
    this.noteRedeliveryComplete(inbound);
    return fault;
  }

  /**
   * Records at the end of a session that the broker received all acknowledgements of earlier sessions, if the session
   * was long enough: then the broker has repeated every message whose acknowledgement was lost.
   */
  private noteRedeliveryComplete({ startedAt }: InboundState): void {
    const closedAt = this.options.arrivals.nextArrivalTime();
    if (closedAt - startedAt >= REDELIVERY_MS) this.acknowledgedBefore = startedAt;
  }

  /** Connects with the newest version that the broker supports. Rejects with a BrokerError. */
  private async connect(): Promise<AcceptedSession> {
    if (this.confirmedVersion) return await this.connectWithVersion(this.confirmedVersion);
    try {
      const accepted = await this.connectWithVersion('5');
      this.confirmedVersion = '5';
      return accepted;
    } catch (error) {
      const isAnswered = this.adapter?.isAnswered === true;
      const { code } = this.toFault(error);
      // A broker that sent a CONNACK speaks MQTT 5, unless it says that it does not.
      const mayNeedOlderVersion = isAnswered ? code === 'unsupported_protocol' : OLDER_VERSION_FAULTS.has(code);
      if (!mayNeedOlderVersion) throw error;
      const accepted = await this.connectWithVersion('3.1.1');
      if (isAnswered) this.confirmedVersion = '3.1.1'; // otherwise the broker may have been shutting down
      return accepted;
    }
  }

  /** Connects with this version of MQTT. Rejects with a BrokerError if the broker does not accept the connection. */
  private async connectWithVersion(version: MqttVersion): Promise<AcceptedSession> {
    let inbound: InboundState | undefined;
    // Created with the first message, which may arrive before the acceptance by the broker is reported.
    const getOrCreateInboundState = (): InboundState => (inbound ??= this.createInboundState(adapter, version === '5'));
    const adapter = this.createAdapter(
      this.options.settings,
      version,
      async (incoming) => await this.processMessage(getOrCreateInboundState(), incoming),
    );
    this.adapter = adapter;
    if (this.stopping.signal.aborted) adapter.destroy(); // then waitUntilAccepted rejects
    try {
      await adapter.waitUntilAccepted();
    } catch (error) {
      adapter.destroy();
      await inbound?.setup.waitUntilSettled(); // a message may have arrived earlier
      throw error;
    }
    return { adapter, inbound: getOrCreateInboundState() };
  }

  /** Creates the state for the messages of a new network connection, which is a new session. */
  private createInboundState(adapter: MqttClientAdapter, isMqtt5: boolean): InboundState {
    const { settings, clock, log, fields, arrivals } = this.options;
    lastSessionNumber += 1;
    const session = { number: lastSessionNumber, isMqtt5 };
    return createInboundState({
      adapter,
      session,
      clientId: settings.clientId,
      isBarrierSupported: this.isBarrierSupported,
      startedAt: arrivals.nextArrivalTime(),
      acknowledgedBefore: this.acknowledgedBefore,
      clock,
      onMissingIds: () => log.warn(fields, 'broker.no_subscription_ids'),
      setUp: async () => await this.runUpHandler(adapter, session),
    });
  }

  /** Creates an adapter, which starts to connect. */
  private createAdapter(
    settings: BrokerSettings,
    version: MqttVersion,
    onMessage: (incoming: Incoming) => Promise<void>,
  ): MqttClientAdapter {
    const { connectTimeoutMs = CONNECT_TIMEOUT_MS } = this.options;
    return new MqttClientAdapter({ settings, version, connectTimeoutMs, onMessage });
  }

  /** Reports the session to the `onUp` handler. If the handler rejects, the connection is closed. */
  private async runUpHandler(adapter: MqttClientAdapter, session: BrokerSession): Promise<void> {
    try {
      await this.options.handlers.onUp(session);
    } catch (error) {
      const fault = this.toFault(error);
      adapter.fail(fault);
      throw new BrokerError(fault);
    }
  }

  /**
   * Passes a message to the `onMessage` handler, unless it is a barrier message. The first message of a session waits
   * until the session is set up. Rejects if the message must not be acknowledged.
   */
  private async processMessage(
    { barrier, backlogDetector, bufferedMessageDetector, acknowledgedBefore, setup }: InboundState,
    { packet, messageId, signal }: Incoming,
  ): Promise<void> {
    if (barrier.handleIfBarrier(packet)) return;
    const isBuffered = bufferedMessageDetector.isBuffered(packet);
    const identity = getIdentity(packet, messageId, acknowledgedBefore);
    const receivedAt = this.options.arrivals.nextArrivalTime();
    const message = toBrokerMessage(packet, { identity, isBuffered, receivedAt, signal });
    if (messageId !== undefined) backlogDetector.trackMessage();
    try {
      if (!setup.isDone) await setup.run();
      signal.throwIfAborted();
      await this.options.handlers.onMessage(message);
    } catch (err) {
      if (!signal.aborted && !(err instanceof BrokerError))
        this.options.log.error({ ...this.options.fields, topic: packet.topic, err }, 'broker.message_failed');
      throw err;
    } finally {
      if (messageId !== undefined) backlogDetector.releaseMessage();
    }
  }

  /**
   * Returns the fault of a BrokerError. Any other error is a bug: it is logged, and the fault only refers to the log.
   */
  private toFault(error: unknown): BrokerFault {
    if (error instanceof BrokerError) return error.fault;
    this.options.log.error({ ...this.options.fields, err: error }, 'broker.session_failed');
    return {
      code: 'not_ready',
      message:
        'the server could not start the session because of an internal error (see the server log); it will try again',
      isFatal: false,
    };
  }
}
