import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../../kernel/clock';
import { DomainError } from '../../../kernel/errors';
import { newId } from '../../../kernel/ids';
import type { Logger } from '../../../kernel/logger';
import type { Arrivals } from '../../arrivals';
import { effectivePolicy } from '../../connection';
import type { ConnectionStatuses } from '../../connectionStatuses';
import type { ConnectorEvents, Downlink, Evidence, OpenConnection, Peer, SendResult } from '../../connector';
import { OrderedWork } from '../../orderedWork';
import { brokerSettingsOf } from '../broker/brokerConfiguration';
import { BrokerLink, type BrokerBackoff, type BrokerMessage, type BrokerSession } from '../broker/brokerLink';
import type { BrokerSettings } from '../broker/brokerSettings';
import type { PublishOutcome } from '../broker/publishOutcome';
import { MqttAnswers } from './mqttAnswers';
import { MqttReader } from './mqttReader';
import { mqttSettingsOf, type MqttSettings } from './mqttSettings';
import { MQTT } from './mqttType';
import { Rejections } from './rejections';
import { fillTopic, filterOfTemplate } from './topicTemplate';

/** What a session needs of the house. */
export interface MqttSessionOptions {
  readonly statuses: ConnectionStatuses;
  /** One for all connectors. */
  readonly arrivals: Arrivals;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of the link to the broker; its own where nothing is said. */
  readonly backoff?: BrokerBackoff;
  /** Between two attempts to store something, milliseconds; 1 s unless given. */
  readonly retryMs?: number;
  /** See BrokerLink; 10 s unless given. */
  readonly connectTimeoutMs?: number;
}

const SOURCE = 'mqtt';
const RETRY_MS = 1000;
/** Two sessions that were taken over within so long are no accident. */
const RIVALRY_MS = 5 * 60_000;

/** A connection at work with one configuration: its link to the broker, and all that comes and goes over it. */
export class MqttSession {
  private readonly settings: MqttSettings;
  private readonly link: BrokerLink;
  private readonly reader: MqttReader;
  private readonly answers: MqttAnswers | undefined;
  private readonly rejections: Rejections;
  /** What came in and is being stored, in order for each device; the link bounds how much. */
  private readonly work = new OrderedWork(Number.POSITIVE_INFINITY);
  private readonly organizationId: string;
  private readonly connectionId: string;
  /** Of the attachment; aborts when it is over. */
  private attachment: { readonly isMqtt5: boolean; readonly over: AbortController } | undefined;
  private ready: { readonly number: number; readonly bootId: string } | undefined;
  private bootId = '';
  private takenOverAt: number | undefined;
  private maxInFlight: number;

  constructor(
    open: OpenConnection,
    private readonly options: MqttSessionOptions,
    private readonly events: ConnectorEvents,
  ) {
    const { id, organizationId, policy } = open.connection;
    this.connectionId = id;
    this.organizationId = organizationId;
    this.maxInFlight = effectivePolicy(policy).maxInFlight;
    this.settings = mqttSettingsOf(open.settings);
    this.reader = new MqttReader(this.settings);
    const settings = brokerSettingsOf(open.settings, `plantroom-${id}`);
    this.answers = answersOf(this.settings, settings);
    this.rejections = new Rejections(options.clock, options.log, this.fields);
    const filters = [filterOfTemplate(this.settings.uplinkTopic), ...(this.answers ? [this.answers.filter] : [])];
    this.link = new BrokerLink({ ...options, settings, filters: [...new Set(filters)], fields: this.fields, handlers: this.handlers() });
  }

  /** Begins to connect; returns at once. */
  start(): void {
    this.options.statuses.connecting(this.connectionId);
    this.link.start();
  }

  /** Resolves when the link is closed and all that came over it is stored or left to come again. */
  async stop(): Promise<void> {
    await this.link.stop();
  }

  /** Makes the broker forget us. Call it after `stop`. */
  async forget(): Promise<void> {
    await this.link.forget();
  }

  /** Who is there to take commands. */
  get peer(): Peer | undefined {
    const { ready } = this;
    if (!ready || this.link.session?.number !== ready.number) return undefined;
    return { peerId: SOURCE, bootId: ready.bootId, session: ready.number, capacity: Math.max(0, Math.min(this.maxInFlight - this.link.inFlight, this.link.room)) };
  }

  /** A changed policy; what is under way stays. */
  setMaxInFlight(maxInFlight: number): void {
    this.maxInFlight = maxInFlight;
    if (this.peer) this.events.ready(this.organizationId, this.connectionId);
  }

  /** Publishes a command. */
  send(downlink: Downlink, session: number): SendResult {
    const { peer, attachment } = this;
    if (peer?.session !== session || peer.capacity === 0 || !attachment) return 'not_sent';
    const topic = this.topicOf(downlink);
    if (topic === undefined) return 'not_sent';
    const { executionId, clientDeviceId, deadline, payload } = downlink;
    const responseTopic = this.answers?.responseTopic;
    const message = {
      topic,
      payload: payload.kind === 'json' ? Buffer.from(JSON.stringify(payload.value)) : Buffer.from(payload.bytes),
      deadline,
      ...(responseTopic !== undefined && { responseTopic, correlationData: Buffer.from(executionId) }),
    };
    return this.link.publish(message, (outcome) => this.settle(executionId, clientDeviceId, outcome, attachment.over.signal));
  }

  /** Undefined: the connection was changed since the command was admitted, and has none for it. */
  private topicOf({ topic, clientDeviceId }: Downlink): string | undefined {
    const template = topic === '' ? this.settings.downlinkTopic : topic;
    return template === undefined || MQTT.findClientDeviceId(clientDeviceId) === undefined ? undefined : fillTopic(template, clientDeviceId);
  }

  private handlers(): ConstructorParameters<typeof BrokerLink>[0]['handlers'] {
    return {
      up: async (session) => await this.up(session),
      ready: () => this.becomeReady(),
      message: async (message) => await this.take(message),
      down: async (error, isFatal, code) => await this.down(error, isFatal, code),
    };
  }

  private async up({ isMqtt5 }: BrokerSession): Promise<void> {
    const { organizationId, connectionId } = this;
    this.attachment = { isMqtt5, over: new AbortController() };
    this.bootId = newId();
    await this.events.attached({ organizationId, connectionId, peerId: SOURCE, bootId: this.bootId, source: SOURCE, durable: false, known: [] });
  }

  private becomeReady(): void {
    const { session } = this.link;
    if (!session) return;
    this.ready = { number: session.number, bootId: this.bootId };
    this.options.statuses.attached(this.connectionId);
    this.warn();
    this.events.ready(this.organizationId, this.connectionId);
  }

  private async down(error: string, isFatal: boolean, code: string): Promise<void> {
    const { statuses } = this.options;
    const { attachment } = this;
    this.ready = undefined;
    this.attachment = undefined;
    attachment?.over.abort();
    if (code === 'session_taken_over') this.takenOver();
    if (isFatal) statuses.failed(this.connectionId, error);
    else statuses.detached(this.connectionId, error);
    await this.work.idle(); // what it brought comes first
    if (attachment) await this.events.detached(this.organizationId, this.connectionId);
  }

  private takenOver(): void {
    const now = this.options.clock.monotonic();
    const isRivalry = this.takenOverAt !== undefined && now - this.takenOverAt < RIVALRY_MS;
    this.takenOverAt = now;
    if (isRivalry && this.options.statuses.contested(this.connectionId)) this.options.log.error(this.fields, 'mqtt.contested');
  }

  private async take(message: BrokerMessage): Promise<void> {
    if (message.retained) return this.options.log.debug({ ...this.fields, topic: message.topic }, 'mqtt.retained_ignored'); // it is no news
    this.options.statuses.messageReceived(this.connectionId);
    await Promise.all([this.takeAnswer(message), this.takeUplink(message)]);
  }

  private async takeAnswer(message: BrokerMessage): Promise<void> {
    if (this.answers?.isFor(message.topic) !== true) return;
    const answer = this.answers.read(message);
    if (!answer) return this.options.log.warn({ ...this.fields, topic: message.topic }, 'mqtt.answer_unreadable');
    await this.add(`execution ${answer.executionId}`, message.signal, async () => await this.apply(answer.executionId, answer.evidence));
  }

  private async takeUplink(message: BrokerMessage): Promise<void> {
    const read = this.reader.read(message);
    if (!read) return;
    if ('reason' in read) return this.reject(message.topic, read.reason);
    const { organizationId, connectionId } = this;
    const { receivedAt, isBuffered, topic, signal } = message;
    const uplink = { ...read, organizationId, connectionId, receivedAt, isBuffered, clock: undefined, fPort: undefined };
    await this.add(laneOf(read.clientDeviceId), signal, async () => {
      const outcome = await this.events.uplink(uplink);
      if (outcome.outcome === 'rejected') this.reject(topic, outcome.reason);
    });
  }

  private reject(topic: string, reason: string): void {
    this.rejections.add(topic, reason);
    this.warn();
  }

  private settle(executionId: string, clientDeviceId: string, outcome: PublishOutcome, signal: AbortSignal): void {
    const evidence = { ...evidenceOf(outcome), receivedAt: this.options.arrivals.stamp() };
    this.events.ready(this.organizationId, this.connectionId);
    this.add(laneOf(clientDeviceId), signal, async () => await this.apply(executionId, evidence)).catch((err: unknown) => {
      this.options.log.warn({ ...this.fields, execution_id: executionId, err }, 'mqtt.evidence_lost'); // its deadline decides
    });
  }

  private async apply(executionId: string, evidence: Evidence): Promise<void> {
    const outcome = await this.events.evidence(this.organizationId, this.connectionId, executionId, SOURCE, evidence);
    if (outcome === 'unknown') this.options.log.warn({ ...this.fields, execution_id: executionId, evidence: evidence.kind }, 'mqtt.execution_unknown');
  }

  /** Resolves when the job is done, and rejects if the signal aborts before that. The job is tried until then: what is not stored is not acknowledged. */
  private async add(lane: string, signal: AbortSignal, job: () => Promise<void>): Promise<void> {
    await new Promise<void>((resolve, reject) => void this.work.add(lane, async () => await this.persist(signal, job).then(resolve, reject)));
  }

  private async persist(signal: AbortSignal, job: () => Promise<void>): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      try {
        return await job();
      } catch (err) {
        if (err instanceof DomainError && err.kind === 'not_found') return; // the connection was deleted meanwhile
        this.options.log.error({ ...this.fields, err }, 'mqtt.message_failed');
      }
      await sleep(this.options.retryMs ?? RETRY_MS, undefined, { signal });
    }
  }

  private warn(): void {
    const isOld = this.attachment?.isMqtt5 === false;
    const warnings = [...(isOld ? ['no_message_expiry'] : []), ...(isOld && this.answers?.responseTopic !== undefined ? ['answers_need_mqtt_5'] : []), ...(this.rejections.count > 0 ? ['uplinks_rejected'] : [])];
    this.options.statuses.warn(this.connectionId, warnings);
  }

  private get fields(): object {
    return { organization_id: this.organizationId, connection_id: this.connectionId };
  }
}

function answersOf({ answer }: MqttSettings, { clientId }: BrokerSettings): MqttAnswers | undefined {
  return answer && new MqttAnswers(answer, `plantroom/${clientId.replace(/[+#/]/g, '_')}/answers`);
}

function laneOf(clientDeviceId: string): string {
  return `device ${clientDeviceId}`;
}

function evidenceOf(outcome: PublishOutcome): Evidence {
  if (outcome.kind === 'acknowledged') return { kind: 'transport_ok' };
  if (outcome.kind === 'no_subscribers') return { kind: 'known_undelivered', code: 'no_subscribers', message: 'nobody is subscribed to the topic at the broker' };
  const { code, message, isTemporary } = outcome;
  return { kind: isTemporary ? 'known_undelivered' : 'refused', code, message };
}
