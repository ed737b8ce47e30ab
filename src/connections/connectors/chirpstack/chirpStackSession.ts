import type { Clock } from '../../../kernel/clock';
import { newId } from '../../../kernel/ids';
import type { Logger } from '../../../kernel/logger';
import type { MonotonicTimestamps } from '../../monotonicTimestamps';
import { applyPolicyDefaults, type Connection } from '../../connection';
import type { ConnectionStatuses } from '../../connectionStatuses';
import type { ConnectorEvents, Downlink, Evidence, OpenConnection, Peer, SendResult } from '../../connector';
import { DataWarningReporter } from '../../dataWarningReporter';
import type { BrokerBackoff } from '../broker/backOff';
import { getBrokerSettings } from '../broker/brokerConfiguration';
import { MqttConnectionManager } from '../broker/mqttConnectionManager';
import type { BrokerMessage, BrokerSession } from '../broker/brokerTraffic';
import type { PublishOutcome } from '../broker/publishOutcome';
import { ClientIdConflictDetector } from '../broker/clientIdConflictDetector';
import { toCommand, type Unwritable } from './chirpStackCommand';
import { ChirpStackInbox } from './chirpStackInbox';
import { getChirpStackSettings, type ChirpStackSettings } from './chirpStackSettings';

/** Dependencies of ChirpStackSession. */
export interface ChirpStackSessionOptions {
  readonly statuses: ConnectionStatuses;
  readonly arrivals: MonotonicTimestamps;
  readonly clock: Clock;
  readonly log: Logger;
  /** The reconnect delays of the broker link; default: those of BackOff. */
  readonly backoff?: BrokerBackoff;
  /** See ChirpStackInboxOptions; default 5 s. */
  readonly ackWaitMs?: number;
}

const SOURCE = 'chirpstack';
/** A warning: events arrive with QoS 0, so events that are published while this server is disconnected are lost. */
const QOS_0_WARNING = 'integration_qos_0';
/** A warning: events are not acknowledged, because they cannot be stored in the database. */
const STALLED_WARNING = 'write_stalled';

/** A connection with its current configuration: its broker link, and the traffic of the network server behind it. */
export class ChirpStackSession {
  /** The broker that stores our session, and its client id there. */
  readonly brokerSession: { readonly url: string; readonly clientId: string };
  /** The filters that it subscribes to. */
  readonly filters: readonly string[];
  private readonly settings: ChirpStackSettings;
  private readonly link: MqttConnectionManager;
  private readonly inbox: ChirpStackInbox;
  private readonly stopping = new AbortController();
  private maxInFlight: number;
  /** Identifies the current attachment; empty while the broker is not attached. */
  private bootId = '';
  private lastEventQos: number | undefined;
  private readonly dataWarnings: DataWarningReporter;
  private readonly conflictDetector: ClientIdConflictDetector;

  constructor(
    private readonly open: OpenConnection,
    private readonly events: ConnectorEvents,
    private readonly options: ChirpStackSessionOptions,
  ) {
    const { arrivals, clock, log, backoff, ackWaitMs } = options;
    const { id: connectionId, organizationId, policy } = open.connection;
    this.maxInFlight = applyPolicyDefaults(policy).maxInFlight;
    this.settings = getChirpStackSettings(open.settings);
    const { reader, topics } = this.settings;
    this.conflictDetector = new ClientIdConflictDetector(clock);
    this.dataWarnings = new DataWarningReporter({
      ...options,
      connection: open.connection,
      fields: this.getLogFields(),
    });
    this.inbox = new ChirpStackInbox({
      organizationId,
      connectionId,
      reader,
      events,
      clock,
      log,
      dataWarnings: this.dataWarnings,
      onStalled: () => this.updateWarnings(),
      ...(ackWaitMs !== undefined && { ackWaitMs }),
    });
    const brokerSettings = getBrokerSettings(open.settings, `plantroom-${connectionId}`);
    this.brokerSession = brokerSettings;
    this.filters = [topics.filter];
    this.link = new MqttConnectionManager({
      settings: brokerSettings,
      filters: this.filters,
      arrivals,
      clock,
      log,
      fields: this.getLogFields(),
      ...(backoff && { backoff }),
      handlers: {
        onMessage: async (message) => await this.handleMessage(message),
        onUp: async (session) => await this.onUp(session),
        onReady: () => this.onReady(),
        onDown: async (error, isFatal, code) => await this.onDown(error, isFatal, code),
      },
    });
  }

  /** Starts to connect; returns immediately. */
  start(): void {
    this.options.statuses.markConnecting(this.connection.id);
    this.link.start();
  }

  /** Resolves when the link is closed and every message is stored or left to be sent again. */
  async stop(keepsSession: boolean): Promise<void> {
    this.stopping.abort();
    this.inbox.release(); // the link waits until its messages are processed
    await this.link.stop(keepsSession);
    this.dataWarnings.flush();
  }

  /** Deletes the session at the broker, if it can be reached. Call it after `stop`. */
  async deleteAtBroker(): Promise<void> {
    await this.link.forget();
  }

  /** Reports that a command waits for the broker. */
  connectSoon(): void {
    this.link.connectSoon();
  }

  /** Applies a changed policy. Commands in flight are not affected. */
  setMaxInFlight(maxInFlight: number): void {
    this.maxInFlight = maxInFlight;
    if (this.link.session) this.events.ready(this.connection.organizationId, this.connection.id);
  }

  /**
   * The peer that accepts commands: the broker. Whether a network server listens behind it is only known after a
   * command, and only with MQTT 5.
   */
  get peer(): Peer | undefined {
    const { session } = this.link;
    if (!session) return undefined;
    return {
      peerId: SOURCE,
      bootId: this.bootId,
      session: session.number,
      capacity: this.link.capacity(this.maxInFlight),
    };
  }

  /** The QoS of the last event; undefined if none has arrived. */
  get lastQos(): number | undefined {
    return this.lastEventQos;
  }

  /** Publishes a command on this session only. */
  send(downlink: Downlink, session: number): SendResult {
    const { peer } = this;
    if (peer?.session !== session || peer.capacity === 0) return 'not_sent';
    const command = toCommand(downlink);
    if ('code' in command) return this.reportUnwritable(downlink, command);
    const { clientDeviceId, executionId, deadline } = downlink;
    const { topics, codec } = this.settings;
    this.inbox.trackCommand(downlink);
    const result = this.link.publish(
      { topic: topics.getCommandTopic(clientDeviceId), payload: codec.encode(command), deadline },
      (outcome) => this.handlePublishOutcome(downlink, outcome),
    );
    if (result === 'not_sent') this.inbox.forget(executionId);
    return result;
  }

  /** Forgets a command that is final here. The network server cannot remove one item from a queue. */
  forget(executionId: string): void {
    this.inbox.forget(executionId);
  }

  /** Reports the broker as attached, before the first event is processed. */
  private async onUp({ number }: BrokerSession): Promise<void> {
    const { id: connectionId, organizationId } = this.connection;
    this.bootId = newId();
    this.conflictDetector.sessionStarted();
    this.inbox.markConnected();
    await this.events.attached({
      organizationId,
      connectionId,
      peerId: SOURCE,
      bootId: this.bootId,
      source: SOURCE,
      durable: false,
      known: [],
    });
    this.options.log.info({ ...this.getLogFields(), session: number }, 'chirpstack.attached');
  }

  /** Reports that commands can be sent now. */
  private onReady(): void {
    const { id: connectionId, organizationId } = this.connection;
    this.options.statuses.markAttached(connectionId);
    this.updateWarnings();
    this.events.ready(organizationId, connectionId);
  }

  /** Reports the end of a session after its events are stored, and detects client id conflicts. */
  private async onDown(error: string, isFatal: boolean, code: string): Promise<void> {
    const { id: connectionId, organizationId } = this.connection;
    if (this.conflictDetector.sessionEnded(code) && this.options.statuses.markConflict(connectionId))
      this.options.log.error(this.getLogFields(), 'chirpstack.client_id_conflict');
    if (isFatal) this.options.statuses.markFailed(connectionId, error);
    else this.options.statuses.markDetached(connectionId, error);
    await this.inbox.waitUntilIdle(); // wait until the received events are stored
    if (this.bootId === '') return; // `onUp` was not called
    this.bootId = '';
    await this.events.detached(organizationId, connectionId);
  }

  /** Passes the current warnings to the status of the connection. */
  private updateWarnings(): void {
    this.options.statuses.setWarnings(this.connection.id, [
      ...(this.inbox.isStalled ? [STALLED_WARNING] : []),
      ...(this.link.session?.warnings ?? []),
      ...(this.lastEventQos === 0 ? [QOS_0_WARNING] : []),
    ]);
  }

  /** Passes a message to the inbox, and records its QoS. */
  private async handleMessage(message: BrokerMessage): Promise<void> {
    if (!message.retained) this.options.statuses.markMessageReceived(this.connection.id);
    if (message.qos !== this.lastEventQos) {
      this.lastEventQos = message.qos;
      this.updateWarnings();
    }
    await this.inbox.handleMessage(message);
  }

  /**
   * Processes the outcome of a publish. An acknowledgement is not evidence, because possibly no network server is
   * subscribed.
   */
  private handlePublishOutcome(downlink: Downlink, outcome: PublishOutcome): void {
    const { id: connectionId, organizationId } = this.connection;
    const { executionId } = downlink;
    this.options.log.debug(
      { ...this.getLogFields(), execution_id: executionId, outcome: outcome.kind },
      'chirpstack.published',
    );
    const evidence = findEvidence(outcome);
    if (evidence) this.storeEvidence(downlink, evidence);
    this.events.ready(organizationId, connectionId);
  }

  /** Reports a command that cannot be encoded as sent and rejected, because a retry would fail in the same way. */
  private reportUnwritable(downlink: Downlink, { code, message }: Unwritable): SendResult {
    this.storeEvidence(downlink, { kind: 'refused', code, message });
    return 'sent';
  }

  /**
   * Starts to store evidence. A failure is only logged: then the session was stopped, and the timers of the execution
   * determine its outcome.
   */
  private storeEvidence({ clientDeviceId, executionId }: Downlink, evidence: Evidence): void {
    this.inbox.storeEvidence(clientDeviceId, executionId, evidence, this.stopping.signal).catch((err: unknown) => {
      this.options.log.warn(
        { ...this.getLogFields(), execution_id: executionId, evidence: evidence.kind, err },
        'chirpstack.evidence_dropped',
      );
    });
  }

  private get connection(): Connection {
    return this.open.connection;
  }

  private getLogFields(): object {
    const { id, organizationId } = this.open.connection;
    return { organization_id: organizationId, connection_id: id };
  }
}

/** Returns the evidence of the outcome of a publish; undefined if the broker took it, or does not acknowledge it. */
function findEvidence(outcome: PublishOutcome): Evidence | undefined {
  if (outcome.kind === 'acknowledged' || outcome.kind === 'not_acknowledged') return undefined;
  if (outcome.kind === 'no_subscribers')
    return {
      kind: 'known_undelivered',
      code: 'network_server_absent',
      message: 'no client is subscribed to commands at the broker; check that ChirpStack runs and uses this broker',
    };
  return { kind: outcome.isTemporary ? 'known_undelivered' : 'refused', code: outcome.code, message: outcome.message };
}
