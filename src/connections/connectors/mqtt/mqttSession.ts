import type { Clock } from '../../../kernel/clock';
import { newId } from '../../../kernel/ids';
import type { Logger } from '../../../kernel/logger';
import type { Arrivals } from '../../arrivals';
import { effectivePolicy } from '../../connection';
import type { ConnectionStatuses } from '../../connectionStatuses';
import type { ConnectorEvents, Downlink, Evidence, OpenConnection, Peer, SendResult } from '../../connector';
import { OrderedWork } from '../../orderedWork';
import { brokerSettingsOf } from '../broker/brokerConfiguration';
import type { BrokerBackoff } from '../broker/backOff';
import { BrokerLink } from '../broker/brokerLink';
import type { BrokerMessage, BrokerSession } from '../broker/brokerTraffic';
import type { BrokerSettings } from '../broker/brokerSettings';
import type { PublishOutcome } from '../broker/publishOutcome';
import { Rivalry } from '../broker/rivalry';
import { Storing, type StoringOutcome } from '../broker/storing';
import { MqttAnswers } from './mqttAnswers';
import { MqttReader } from './mqttReader';
import { mqttSettingsOf, type MqttSettings } from './mqttSettings';
import { MQTT } from './mqttType';
import { Rejections } from './rejections';
import { fillTopic, filterOfTemplate, isPublishable } from './topicTemplate';

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
  /** How long what a broker said of commands is still tried to be stored when the link is lost; 5 s unless given. */
  readonly drainMs?: number;
}

const SOURCE = 'mqtt';
const DRAIN_MS = 5000;
const CANNOT_BE_STORED = 'cannot_be_stored: the log of the server says why, in the line before this one';

/** A connection at work with one configuration: its link to the broker, and all that comes and goes over it. */
export class MqttSession {
  /** Where the broker keeps our session, and by which name. */
  readonly place: { readonly url: string; readonly clientId: string };
  /** What it is subscribed to. */
  readonly filters: readonly string[];
  private readonly settings: MqttSettings;
  private readonly link: BrokerLink;
  private readonly reader: MqttReader;
  private readonly answers: MqttAnswers | undefined;
  private readonly rejections: Rejections;
  /** Filters are wider than templates, such as `+/up` for `dev-{clientDeviceId}/up`; it may also be a template that no device has. */
  private readonly unread: Rejections;
  private readonly storing: Storing;
  /** What came in and is being stored, in order for each device; the link bounds how much. */
  private readonly work = new OrderedWork(Number.POSITIVE_INFINITY);
  private readonly organizationId: string;
  private readonly connectionId: string;
  /** Its signal aborts when it is over and what the broker said in it had its time to be stored. */
  private attachment: { readonly isMqtt5: boolean; readonly over: AbortController } | undefined;
  private ready: { readonly number: number; readonly bootId: string } | undefined;
  private bootId = '';
  private readonly rivalry: Rivalry;
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
    this.rejections = new Rejections(options.log, this.fields);
    this.unread = new Rejections(options.log, this.fields, 'mqtt.topic_unread');
    this.rivalry = new Rivalry(options.clock);
    this.storing = new Storing({ clock: options.clock, log: options.log, fields: this.fields, component: SOURCE, retryMs: options.retryMs, onStalled: () => this.warn() });
    this.place = { url: settings.url, clientId: settings.clientId };
    this.filters = [...new Set([filterOfTemplate(this.settings.uplinkTopic), ...(this.answers ? [this.answers.filter] : [])])];
    this.link = new BrokerLink({ ...options, settings, filters: this.filters, fields: this.fields, handlers: this.handlers() });
  }

  /** Begins to connect; returns at once. */
  start(): void {
    this.options.statuses.connecting(this.connectionId);
    this.link.start();
  }

  /** Resolves when the link is closed and all that came over it is stored or left to come again. */
  async stop(): Promise<void> {
    await this.link.stop();
    this.rejections.end();
    this.unread.end();
  }

  /** Makes the broker forget us. Call it after `stop`. */
  async forget(): Promise<void> {
    await this.link.forget();
  }

  /** Who is there to take commands. */
  get peer(): Peer | undefined {
    const { ready } = this;
    if (!ready || this.link.session?.number !== ready.number) return undefined;
    return { peerId: SOURCE, bootId: ready.bootId, session: ready.number, capacity: this.link.capacity(this.maxInFlight) };
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

  /** Undefined: the connection was changed since the command was admitted, and has none for it; or the broker would send it back to us. */
  private topicOf({ topic: named, clientDeviceId }: Downlink): string | undefined {
    const template = named === '' ? this.settings.downlinkTopic : named;
    if (template === undefined || MQTT.findClientDeviceId(clientDeviceId) === undefined) return undefined;
    const topic = fillTopic(template, clientDeviceId);
    const isReadBack = this.reader.isFor(topic) || this.answers?.isFor(topic) === true;
    return isPublishable(topic) && !isReadBack ? topic : undefined;
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
    this.rivalry.up();
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
    if (this.rivalry.ended(code) && statuses.contested(this.connectionId)) this.options.log.error(this.fields, 'mqtt.contested');
    if (isFatal) statuses.failed(this.connectionId, error);
    else statuses.detached(this.connectionId, error);
    const timer = setTimeout(() => attachment?.over.abort(), this.options.drainMs ?? DRAIN_MS);
    await this.work.idle(); // what it brought comes first, and what the broker said of commands
    clearTimeout(timer);
    if (attachment) await this.events.detached(this.organizationId, this.connectionId);
  }

  private async take(message: BrokerMessage): Promise<void> {
    if (message.retained) return this.options.log.debug({ ...this.fields, topic: message.topic }, 'mqtt.retained_ignored'); // it is no news
    this.options.statuses.messageReceived(this.connectionId);
    if (!this.reader.isFor(message.topic) && this.answers?.isFor(message.topic) !== true) return this.unread.add(message.topic, 'topic_unread: it is neither one of uplinks nor one of answers');
    try {
      await Promise.all([this.takeAnswer(message), this.takeUplink(message)]);
    } catch (err) {
      if (message.signal.aborted) throw err; // it comes again
      this.options.log.error({ ...this.fields, topic: message.topic, err }, 'mqtt.message_failed');
      this.reject(message.topic, CANNOT_BE_STORED);
    }
  }

  private async takeAnswer(message: BrokerMessage): Promise<void> {
    if (this.answers?.isFor(message.topic) !== true) return;
    const answer = this.answers.read(message);
    if (!answer) return this.options.log.warn({ ...this.fields, topic: message.topic }, 'mqtt.answer_unreadable');
    const outcome = await this.add(`execution ${answer.executionId}`, message.signal, async () => await this.apply(answer.executionId, answer.evidence));
    if (outcome === 'given_up') this.reject(message.topic, CANNOT_BE_STORED);
  }

  private async takeUplink(message: BrokerMessage): Promise<void> {
    const read = this.reader.read(message);
    if (!read) return;
    if ('reason' in read) return this.reject(message.topic, read.reason);
    const { organizationId, connectionId } = this;
    const { receivedAt, isBuffered, topic, signal } = message;
    const uplink = { ...read, organizationId, connectionId, receivedAt, isBuffered, clock: undefined, fPort: undefined };
    const outcome = await this.add(laneOf(read.clientDeviceId), signal, async () => {
      const stored = await this.events.uplink(uplink);
      if (stored.outcome === 'rejected') this.reject(topic, stored.reason);
    });
    if (outcome === 'given_up') this.reject(topic, CANNOT_BE_STORED);
  }

  private reject(topic: string, reason: string): void {
    this.rejections.add(topic, reason);
    this.warn();
  }

  /** What the broker took counts as delivered from when all has come that it held for us before: a sample among that is older than the command. */
  private settle(executionId: string, clientDeviceId: string, outcome: PublishOutcome, signal: AbortSignal): void {
    const caughtUp = outcome.kind === 'acknowledged' ? this.link.caughtUp() : undefined;
    this.events.ready(this.organizationId, this.connectionId);
    void this.work.add(`outcome of ${executionId}`, async () => {
      await caughtUp;
      const evidence = { ...evidenceOf(outcome), receivedAt: this.options.arrivals.stamp() };
      try {
        await this.add(laneOf(clientDeviceId), signal, async () => await this.apply(executionId, evidence));
      } catch (err) {
        this.options.log.warn({ ...this.fields, execution_id: executionId, err }, 'mqtt.evidence_lost'); // its deadline decides
      }
    });
  }

  private async apply(executionId: string, evidence: Evidence): Promise<void> {
    const outcome = await this.events.evidence(this.organizationId, this.connectionId, executionId, SOURCE, evidence);
    if (outcome === 'unknown') this.options.log.warn({ ...this.fields, execution_id: executionId, evidence: evidence.kind }, 'mqtt.execution_unknown');
  }

  /** Resolves when the job is done or given up, and rejects if the signal aborts before that: what is not stored is not acknowledged. */
  private async add(lane: string, signal: AbortSignal, job: () => Promise<void>): Promise<StoringOutcome> {
    return await new Promise((resolve, reject) => void this.work.add(lane, async () => await this.storing.run(signal, job).then(resolve, reject)));
  }

  private warn(): void {
    const isOld = this.attachment?.isMqtt5 === false;
    const isAtMostOnce = this.link.session?.isAtMostOnce === true;
    const warnings: readonly (readonly [boolean, string])[] = [
      [this.storing.isStalled, 'storing_stalled'],
      [isAtMostOnce, 'subscribed_at_most_once'],
      [isOld, 'no_message_expiry'],
      [isOld && this.answers?.responseTopic !== undefined, 'answers_need_mqtt_5'],
      [this.rejections.count > 0, 'uplinks_rejected'],
    ];
    this.options.statuses.warn(this.connectionId, warnings.filter(([isSo]) => isSo).map(([, warning]) => warning));
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
