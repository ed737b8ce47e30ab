import type { Clock } from '../../../kernel/clock';
import { newId } from '../../../kernel/ids';
import type { Logger } from '../../../kernel/logger';
import type { Arrivals } from '../../arrivals';
import { effectivePolicy, type Connection } from '../../connection';
import type { ConnectionStatuses } from '../../connectionStatuses';
import type { ConnectorEvents, Downlink, Evidence, OpenConnection, Peer, SendResult } from '../../connector';
import type { BrokerBackoff } from '../broker/backOff';
import { brokerSettingsOf } from '../broker/brokerConfiguration';
import { BrokerLink } from '../broker/brokerLink';
import type { BrokerMessage, BrokerSession } from '../broker/brokerTraffic';
import type { PublishOutcome } from '../broker/publishOutcome';
import { Rivalry } from '../broker/rivalry';
import { commandOf, type Unwritable } from './chirpStackCommand';
import { ChirpStackInbox } from './chirpStackInbox';
import { chirpStackSettings, type ChirpStackSettings } from './chirpStackSettings';

/** What a session needs of the house. */
export interface ChirpStackSessionOptions {
  readonly statuses: ConnectionStatuses;
  readonly arrivals: Arrivals;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of the link to the broker; its own where nothing is said. */
  readonly backoff?: BrokerBackoff;
  /** See ChirpStackInbox; 5 s unless given. */
  readonly holdMs?: number;
}

const SOURCE = 'chirpstack';
/** A warning: events come with QoS 0, so what is published while this server is away is lost. */
const QOS_0 = 'integration_qos_0';
/** A warning: events are not acknowledged, for the database does not take them. */
const STALLED = 'storing_stalled';
/** A warning: something came that can never be stored; the log says what. */
const REJECTED = 'uplinks_rejected';

/** One connection as it is configured now: its link to the broker, and what goes to and comes from the network server behind it. */
export class ChirpStackSession {
  private readonly settings: ChirpStackSettings;
  private readonly link: BrokerLink;
  private readonly inbox: ChirpStackInbox;
  private readonly stopping = new AbortController();
  private maxInFlight: number;
  private bootId = '';
  private qos: number | undefined;
  private hasRejected = false;
  private readonly rivalry: Rivalry;

  constructor(
    private readonly open: OpenConnection,
    private readonly events: ConnectorEvents,
    private readonly options: ChirpStackSessionOptions,
  ) {
    const { arrivals, clock, log, backoff, holdMs } = options;
    const { id: connectionId, organizationId, policy } = open.connection;
    this.maxInFlight = effectivePolicy(policy).maxInFlight;
    this.settings = chirpStackSettings(open.settings);
    const { reader, topics } = this.settings;
    this.rivalry = new Rivalry(clock);
    this.inbox = new ChirpStackInbox({ organizationId, connectionId, reader, events, clock, log, onRejected: () => this.rejected(), onStalled: () => this.warn(), ...(holdMs !== undefined && { holdMs }) });
    this.link = new BrokerLink({
      settings: brokerSettingsOf(open.settings, `plantroom-${connectionId}`),
      filters: [topics.filter],
      arrivals,
      clock,
      log,
      fields: this.fields(),
      ...(backoff && { backoff }),
      handlers: {
        message: async (message) => await this.message(message),
        up: async (session) => await this.up(session),
        ready: () => this.ready(),
        down: async (error, isFatal, code) => await this.down(error, isFatal, code),
      },
    });
  }

  /** Begins to connect; returns at once. */
  start(): void {
    this.options.statuses.connecting(this.connection.id);
    this.link.start();
  }

  /** Resolves when the link is closed and what came over it is stored, or left to be sent again. */
  async stop(): Promise<void> {
    this.stopping.abort();
    this.inbox.release(); // the link waits for what it brought
    await this.link.stop();
  }

  /** Makes the broker keep nothing for this session any more, as well as that can be done. Call it after `stop`. */
  async forgetAtBroker(): Promise<void> {
    await this.link.forget();
  }

  /** Whether this is what a session of these settings would be. */
  serves(settings: OpenConnection['settings']): boolean {
    return JSON.stringify(settings) === JSON.stringify(this.open.settings);
  }

  /** Whether the broker would take one of these settings for the same client. */
  isSameClient(settings: OpenConnection['settings']): boolean {
    const [one, other] = [this.open.settings, settings].map((given) => [given['url'], given['clientId']]);
    return JSON.stringify(one) === JSON.stringify(other);
  }

  /** Whether one of these settings would subscribe to the same. */
  hasSubscription(settings: OpenConnection['settings']): boolean {
    return chirpStackSettings(settings).topics.filter === this.settings.topics.filter;
  }

  /** A changed policy; what is under way stays. */
  applyPolicy(policy: Connection['policy']): void {
    this.maxInFlight = effectivePolicy(policy).maxInFlight;
    if (this.link.session) this.events.ready(this.connection.organizationId, this.connection.id);
  }

  /** Who is there to take commands: the broker. Whether a network server listens behind it shows with MQTT 5 only, at a command. */
  get peer(): Peer | undefined {
    const { session } = this.link;
    if (!session) return undefined;
    return { peerId: SOURCE, bootId: this.bootId, session: session.number, capacity: this.link.capacity(this.maxInFlight) };
  }

  /** With which QoS the last event came; undefined: none came yet. */
  get lastQos(): number | undefined {
    return this.qos;
  }

  /** Publishes a command on one session and on no other. */
  send(downlink: Downlink, session: number): SendResult {
    const { peer } = this;
    if (peer?.session !== session || peer.capacity === 0) return 'not_sent';
    const command = commandOf(downlink);
    if ('code' in command) return this.refuse(downlink, command);
    const { clientDeviceId, executionId, deadline } = downlink;
    const { topics, codec } = this.settings;
    this.inbox.sending(downlink);
    const result = this.link.publish({ topic: topics.commandFor(clientDeviceId), payload: codec.encode(command), deadline }, (outcome) => this.published(downlink, outcome));
    if (result === 'not_sent') this.inbox.forget(executionId);
    return result;
  }

  /** A command ended here. The network server knows no way to take one item out of a queue. */
  forget(executionId: string): void {
    this.inbox.forget(executionId);
  }

  private async up({ number }: BrokerSession): Promise<void> {
    const { id: connectionId, organizationId } = this.connection;
    this.bootId = newId();
    this.rivalry.up();
    this.inbox.linked();
    await this.events.attached({ organizationId, connectionId, peerId: SOURCE, bootId: this.bootId, source: SOURCE, durable: false, known: [] });
    this.options.log.info({ ...this.fields(), session: number }, 'chirpstack.attached');
  }

  private ready(): void {
    const { id: connectionId, organizationId } = this.connection;
    this.options.statuses.attached(connectionId);
    this.warn();
    this.events.ready(organizationId, connectionId);
  }

  private async down(error: string, isFatal: boolean, code: string): Promise<void> {
    const { id: connectionId, organizationId } = this.connection;
    if (this.rivalry.ended(code) && this.options.statuses.contested(connectionId)) this.options.log.error(this.fields(), 'chirpstack.contested');
    if (isFatal) this.options.statuses.failed(connectionId, error);
    else this.options.statuses.detached(connectionId, error);
    await this.inbox.drained(); // what it brought comes first
    if (this.bootId === '') return; // nobody was attached
    this.bootId = '';
    await this.events.detached(organizationId, connectionId);
  }

  private rejected(): void {
    this.hasRejected = true;
    this.warn();
  }

  private warn(): void {
    this.options.statuses.warn(this.connection.id, [...(this.inbox.isStalled ? [STALLED] : []), ...(this.link.session?.isAtMostOnce === true ? ['subscribed_at_most_once'] : []), ...(this.qos === 0 ? [QOS_0] : []), ...(this.hasRejected ? [REJECTED] : [])]);
  }

  private async message(message: BrokerMessage): Promise<void> {
    this.options.statuses.messageReceived(this.connection.id);
    if (message.qos !== this.qos) {
      this.qos = message.qos;
      this.warn();
    }
    await this.inbox.take(message);
  }

  /** The broker's word about a command: that it has it is no evidence, for nobody may listen. */
  private published(downlink: Downlink, outcome: PublishOutcome): void {
    const { id: connectionId, organizationId } = this.connection;
    const { executionId } = downlink;
    this.options.log.debug({ ...this.fields(), execution_id: executionId, outcome: outcome.kind }, 'chirpstack.published');
    const evidence = evidenceOf(outcome);
    if (evidence) this.tell(downlink, evidence);
    this.events.ready(organizationId, connectionId);
  }

  /** It left, as far as the dispatcher is concerned; what cannot be written would not be written at another try. */
  private refuse(downlink: Downlink, { code, message }: Unwritable): SendResult {
    this.tell(downlink, { kind: 'refused', code, message });
    return 'sent';
  }

  private tell({ clientDeviceId, executionId }: Downlink, evidence: Evidence): void {
    this.inbox.tell(clientDeviceId, executionId, evidence, this.stopping.signal).catch((err: unknown) => {
      this.options.log.warn({ ...this.fields(), execution_id: executionId, evidence: evidence.kind, err }, 'chirpstack.evidence_lost'); // stopped: its timers decide
    });
  }

  private get connection(): Connection {
    return this.open.connection;
  }

  private fields(): object {
    const { id, organizationId } = this.open.connection;
    return { organization_id: organizationId, connection_id: id };
  }
}

function evidenceOf(outcome: PublishOutcome): Evidence | undefined {
  if (outcome.kind === 'acknowledged') return undefined;
  if (outcome.kind === 'no_subscribers') return { kind: 'known_undelivered', code: 'network_server_absent', message: 'nobody has subscribed to commands at the broker; see that ChirpStack runs and uses this broker' };
  return { kind: outcome.isTemporary ? 'known_undelivered' : 'refused', code: outcome.code, message: outcome.message };
}
