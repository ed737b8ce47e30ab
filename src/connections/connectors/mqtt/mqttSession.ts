import type { Clock } from '../../../kernel/clock';
import { newId } from '../../../kernel/ids';
import type { Logger } from '../../../kernel/logger';
import type { MonotonicTimestamps } from '../../monotonicTimestamps';
import { applyPolicyDefaults } from '../../connection';
import type { ConnectionStatuses } from '../../connectionStatuses';
import type { ConnectorEvents, Downlink, Evidence, OpenConnection, Peer, SendResult } from '../../connector';
import { formatBytesExample } from '../../dataWarning';
import { DataWarningReporter } from '../../dataWarningReporter';
import { GroupedLog } from '../../groupedLog';
import { KeyedQueue } from '../../keyedQueue';
import { reportOutcome } from '../../uplinkWarnings';
import { getBrokerSettings } from '../broker/brokerConfiguration';
import type { BrokerBackoff } from '../broker/backOff';
import { MqttConnectionManager } from '../broker/mqttConnectionManager';
import type { BrokerMessage, BrokerSession } from '../broker/brokerTraffic';
import type { PublishOutcome } from '../broker/publishOutcome';
import { ClientIdConflictDetector } from '../broker/clientIdConflictDetector';
import { RetryingWriter, type WriteOutcome } from '../broker/retryingWriter';
import { createResponseReader, type MqttAnswers } from './mqttAnswers';
import { toEvidence } from './mqttEvidence';
import { MqttReader, type DeviceUplink } from './mqttReader';
import { getMqttSettings, type MqttSettings } from './mqttSettings';
import { MQTT } from './mqttType';
import { fillTopic, toFilter, isPublishable } from './topicTemplate';

/** Dependencies of MqttSession. */
export interface MqttSessionOptions {
  readonly statuses: ConnectionStatuses;
  /** Shared by all connectors. */
  readonly arrivals: MonotonicTimestamps;
  readonly clock: Clock;
  readonly log: Logger;
  /** The reconnect delays of the broker link; default: those of BackOff. */
  readonly backoff?: BrokerBackoff;
  /** The interval between two attempts to store a message, milliseconds; default 1 s. */
  readonly retryMs?: number;
  /** See MqttConnectionManagerOptions; default 10 s. */
  readonly connectTimeoutMs?: number;
}

const SOURCE = 'mqtt';
/** How long storing the outcomes of commands is retried after the link is lost. */
const DRAIN_MS = 5000;
const CANNOT_BE_STORED = 'cannot_be_stored: see the previous line in the log of the server for the reason';

/** A running connection with one configuration: its broker link and its message handling. */
export class MqttSession {
  /** The broker that stores our session, and its client id there. */
  readonly brokerSession: { readonly url: string; readonly clientId: string };
  /** The filters that it subscribes to. */
  readonly filters: readonly string[];
  private readonly settings: MqttSettings;
  private readonly link: MqttConnectionManager;
  private readonly reader: MqttReader;
  /** Reads responses to commands; undefined if devices do not respond. */
  private readonly responses: MqttAnswers | undefined;
  private readonly dataWarnings: DataWarningReporter;
  /**
   * Messages on topics that match a filter but no template: filters are wider, such as `+/up` for
   * `dev-{clientDeviceId}/up`, or no device uses the template.
   */
  private readonly unmatchedTopics: GroupedLog;
  private readonly writer: RetryingWriter;
  /** The messages that are being stored, in order per device; the link limits their number. */
  private readonly queue = new KeyedQueue(Number.POSITIVE_INFINITY);
  private readonly organizationId: string;
  private readonly connectionId: string;
  /**
   * The current attachment. Its signal aborts after it is detached and the time to store its command outcomes has
   * passed.
   */
  private attachment: { readonly isMqtt5: boolean; readonly closeController: AbortController } | undefined;
  /** The session on which commands can be sent. */
  private readySession: { readonly number: number; readonly bootId: string } | undefined;
  private bootId = '';
  private readonly conflictDetector: ClientIdConflictDetector;
  private maxInFlight: number;

  constructor(
    open: OpenConnection,
    private readonly options: MqttSessionOptions,
    private readonly events: ConnectorEvents,
  ) {
    const { id, organizationId, policy } = open.connection;
    this.connectionId = id;
    this.organizationId = organizationId;
    this.maxInFlight = applyPolicyDefaults(policy).maxInFlight;
    this.settings = getMqttSettings(open.settings);
    this.reader = new MqttReader(this.settings);
    const brokerSettings = getBrokerSettings(open.settings, `plantroom-${id}`);
    this.responses = createResponseReader(this.settings, brokerSettings.clientId);
    this.dataWarnings = new DataWarningReporter({ ...options, connection: open.connection, fields: this.logFields });
    this.unmatchedTopics = new GroupedLog(options.log, this.logFields, 'mqtt.topic_unmatched');
    this.conflictDetector = new ClientIdConflictDetector(options.clock);
    this.writer = new RetryingWriter({
      clock: options.clock,
      log: options.log,
      fields: this.logFields,
      component: SOURCE,
      retryMs: options.retryMs,
      onStalled: () => this.updateWarnings(),
    });
    this.brokerSession = brokerSettings;
    this.filters = [
      ...new Set([toFilter(this.settings.uplinkTopic), ...(this.responses ? [this.responses.filter] : [])]),
    ];
    this.link = new MqttConnectionManager({
      ...options,
      settings: brokerSettings,
      filters: this.filters,
      // Without a time of its own, a retained message may be of any age.
      wantsRetained: this.settings.timePath !== undefined,
      fields: this.logFields,
      handlers: this.createHandlers(),
    });
  }

  /** Starts to connect; returns immediately. */
  start(): void {
    this.options.statuses.markConnecting(this.connectionId);
    this.link.start();
  }

  /** Resolves when the link is closed and every message is stored or left to be sent again. */
  async stop(keepsSession: boolean): Promise<void> {
    await this.link.stop(keepsSession);
    this.dataWarnings.flush();
    this.unmatchedTopics.flush();
  }

  /** Deletes the session at the broker. Call it after `stop`. */
  async deleteAtBroker(): Promise<void> {
    await this.link.forget();
  }

  /** The peer that accepts commands. */
  get peer(): Peer | undefined {
    const { readySession } = this;
    if (!readySession || this.link.session?.number !== readySession.number) return undefined;
    return {
      peerId: SOURCE,
      bootId: readySession.bootId,
      session: readySession.number,
      capacity: this.link.capacity(this.maxInFlight),
    };
  }

  /** Reports that a command waits for the broker. */
  connectSoon(): void {
    this.link.connectSoon();
  }

  /** Applies a changed policy. Commands in flight are not affected. */
  setMaxInFlight(maxInFlight: number): void {
    this.maxInFlight = maxInFlight;
    if (this.peer) this.events.ready(this.organizationId, this.connectionId);
  }

  /** Publishes a command on this session only. */
  send(downlink: Downlink, session: number): SendResult {
    const { peer, attachment } = this;
    if (peer?.session !== session || peer.capacity === 0 || !attachment) return 'not_sent';
    const topic = this.findTopic(downlink);
    if (topic === undefined) return 'not_sent';
    const { executionId, clientDeviceId, deadline, payload } = downlink;
    const responseTopic = this.responses?.responseTopic;
    const message = {
      topic,
      payload: payload.kind === 'json' ? Buffer.from(JSON.stringify(payload.value)) : Buffer.from(payload.bytes),
      deadline,
      ...(responseTopic !== undefined && { responseTopic, correlationData: Buffer.from(executionId) }),
    };
    return this.link.publish(message, (outcome) =>
      this.storeOutcome(executionId, clientDeviceId, outcome, attachment.closeController.signal),
    );
  }

  /**
   * Returns the topic for a command. Undefined if the connection was changed after the command was accepted and has no
   * valid topic or device id for the command, or if the broker would send the command back to this server.
   */
  private findTopic({ topic: commandTopic, clientDeviceId }: Downlink): string | undefined {
    const template = commandTopic === '' ? this.settings.downlinkTopic : commandTopic;
    if (template === undefined || MQTT.findClientDeviceId(clientDeviceId) === undefined) return undefined;
    const topic = fillTopic(template, clientDeviceId);
    const wouldComeBack = this.reader.isUplinkTopic(topic) || this.responses?.isResponseTopic(topic) === true;
    return isPublishable(topic) && !wouldComeBack ? topic : undefined;
  }

  /** Creates the handlers for the events of the broker link. */
  private createHandlers(): ConstructorParameters<typeof MqttConnectionManager>[0]['handlers'] {
    return {
      onUp: async (session) => await this.onUp(session),
      onReady: () => this.onReady(),
      onMessage: async (message) => await this.handleMessage(message),
      onDown: async (error, isFatal, code) => await this.onDown(error, isFatal, code),
    };
  }

  /** Tells the server about the new peer before the first message. The status becomes attached in `onReady`. */
  private async onUp({ isMqtt5 }: BrokerSession): Promise<void> {
    const { organizationId, connectionId } = this;
    this.conflictDetector.sessionStarted();
    this.attachment = { isMqtt5, closeController: new AbortController() };
    this.bootId = newId();
    await this.events.attached({
      organizationId,
      connectionId,
      peerId: SOURCE,
      bootId: this.bootId,
      source: SOURCE,
      durable: false, // received commands do not survive a restart of the peer
      known: [], // a broker does not report earlier commands
    });
  }

  /** Reports that commands can be sent now. */
  private onReady(): void {
    const { session } = this.link;
    if (!session) return;
    this.readySession = { number: session.number, bootId: this.bootId };
    this.options.statuses.markAttached(this.connectionId);
    this.updateWarnings();
    this.events.ready(this.organizationId, this.connectionId);
  }

  /** Reports the end of a session after its messages are stored, and detects client id conflicts. */
  private async onDown(error: string, isFatal: boolean, code: string): Promise<void> {
    const { statuses } = this.options;
    const { attachment } = this;
    this.readySession = undefined;
    this.attachment = undefined;
    if (this.conflictDetector.sessionEnded(code) && statuses.markConflict(this.connectionId))
      this.options.log.error(this.logFields, 'mqtt.client_id_conflict');
    if (isFatal) statuses.markFailed(this.connectionId, error);
    else statuses.markDetached(this.connectionId, error);
    const timer = setTimeout(() => attachment?.closeController.abort(), DRAIN_MS);
    await this.queue.waitUntilIdle(); // wait until the received messages and command outcomes are stored
    clearTimeout(timer);
    if (attachment) await this.events.detached(this.organizationId, this.connectionId);
  }

  /**
   * Stores a message: its topic may be one of uplinks, of responses, or of both. A message that can never be stored is
   * rejected, and is acknowledged like a stored one. Throws only if the signal of the message aborted first.
   */
  private async handleMessage(message: BrokerMessage): Promise<void> {
    if (!message.retained) this.options.statuses.markMessageReceived(this.connectionId);
    const isExpected =
      this.reader.isUplinkTopic(message.topic) || this.responses?.isResponseTopic(message.topic) === true;
    if (!isExpected && !message.retained) {
      const reason = 'topic_unmatched: the topic is neither one of uplinks nor one of responses';
      this.unmatchedTopics.add({ topic: message.topic, reason });
      return;
    }
    try {
      if (message.retained) await this.handleRetained(message);
      else await Promise.all([this.handleResponse(message), this.handleUplink(message)]);
    } catch (err) {
      if (message.signal.aborted) throw err; // the broker sends it again
      this.options.log.error({ ...this.logFields, topic: message.topic, err }, 'mqtt.message_failed');
      this.rejectMessage(message, CANNOT_BE_STORED);
    }
  }

  /** Stores the response to a command, if the topic is one of responses. */
  private async handleResponse(message: BrokerMessage): Promise<void> {
    if (this.responses?.isResponseTopic(message.topic) !== true) return;
    const response = this.responses.read(message);
    const isUnderstood = response !== undefined && response.evidence.kind !== 'answer_not_understood';
    if (!isUnderstood) this.options.log.warn({ ...this.logFields, topic: message.topic }, 'mqtt.response_invalid');
    if (!response) return;
    const outcome = await this.storeInOrder(
      `execution ${response.executionId}`,
      message.signal,
      async () => await this.storeEvidence(response.executionId, response.evidence),
    );
    if (outcome === 'given_up') this.rejectMessage(message, CANNOT_BE_STORED);
  }

  /** Stores an uplink, if the topic is one of uplinks. */
  private async handleUplink(message: BrokerMessage): Promise<void> {
    const read = this.reader.read(message);
    if (!read) return;
    if ('reason' in read) {
      this.rejectMessage(message, read.reason);
      return;
    }
    await this.storeUplink(message, read);
  }

  /** Stores a retained uplink if its own time shows that it is newer than the last one; ignores any other message. */
  private async handleRetained(message: BrokerMessage): Promise<void> {
    const read = this.reader.readRetained(message);
    if (read) await this.storeUplink(message, read);
    else this.options.log.debug({ ...this.logFields, topic: message.topic }, 'mqtt.retained_ignored');
  }

  /** Stores an uplink after earlier ones of its device. */
  private async storeUplink(message: BrokerMessage, read: DeviceUplink): Promise<void> {
    const uplink = { ...read, organizationId: this.organizationId, connectionId: this.connectionId };
    const outcome = await this.storeInOrder(getQueueKey(read.clientDeviceId), message.signal, async () => {
      const { topic, payload } = message;
      const formatExample = (): string => formatBytesExample(payload);
      reportOutcome(this.dataWarnings, uplink, await this.events.uplink(uplink), { topic, formatExample });
    });
    if (outcome === 'given_up') this.rejectMessage(message, CANNOT_BE_STORED);
  }

  /** Reports a message that can never be stored. */
  private rejectMessage({ topic, payload }: BrokerMessage, reason: string): void {
    const clientDeviceId = this.reader.findDeviceId(topic);
    const example = formatBytesExample(payload);
    this.dataWarnings.report('uplinks_rejected', { topic, clientDeviceId, reason, example });
  }

  /**
   * Stores the outcome of a published command. An acknowledged command counts as delivered after all messages have
   * arrived that were at the broker before: samples in those messages are older than the command. The wait has its own
   * queue key, so that it does not delay the messages of the device; the outcome is then stored in order with them.
   */
  private storeOutcome(
    executionId: string,
    clientDeviceId: string,
    outcome: PublishOutcome,
    signal: AbortSignal,
  ): void {
    this.events.ready(this.organizationId, this.connectionId);
    if (outcome.kind === 'not_acknowledged') return; // no evidence: the command stays in transit
    const backlogReceived = outcome.kind === 'acknowledged' ? this.link.waitForBacklog() : undefined;
    void this.queue.add(`outcome of ${executionId}`, async () => {
      await backlogReceived;
      const evidence = { ...toEvidence(outcome), receivedAt: this.options.arrivals.nextArrivalTime() };
      try {
        await this.storeInOrder(
          getQueueKey(clientDeviceId),
          signal,
          async () => await this.storeEvidence(executionId, evidence),
        );
      } catch (err) {
        // the outcome is lost, so the command ends at its deadline
        this.options.log.warn({ ...this.logFields, execution_id: executionId, err }, 'mqtt.result_dropped');
      }
    });
  }

  /** Stores evidence about an execution. */
  private async storeEvidence(executionId: string, evidence: Evidence): Promise<void> {
    const outcome = await this.events.evidence(this.organizationId, this.connectionId, executionId, SOURCE, evidence);
    if (outcome === 'unknown')
      this.options.log.warn(
        { ...this.logFields, execution_id: executionId, evidence: evidence.kind },
        'mqtt.execution_unknown',
      );
  }

  /**
   * Queues a job after earlier ones with the same queue key. Resolves when it is done or given up; rejects if the
   * signal aborts first, because a message that is not stored must not be acknowledged.
   */
  private async storeInOrder(queueKey: string, signal: AbortSignal, job: () => Promise<void>): Promise<WriteOutcome> {
    return await new Promise(
      (resolve, reject) =>
        void this.queue.add(queueKey, async () => await this.writer.run(signal, job).then(resolve, reject)),
    );
  }

  /** Passes the current warnings to the status of the connection. */
  private updateWarnings(): void {
    const isMqtt3 = this.attachment?.isMqtt5 === false;
    const warnings: readonly (readonly [boolean, string])[] = [
      [this.writer.isStalled, 'write_stalled'],
      [isMqtt3, 'no_message_expiry'],
      [isMqtt3 && this.responses?.responseTopic !== undefined, 'responses_need_mqtt_5'],
    ];
    this.options.statuses.setWarnings(this.connectionId, [
      ...(this.link.session?.warnings ?? []),
      ...warnings.filter(([isActive]) => isActive).map(([, warning]) => warning),
    ]);
  }

  /** The fields of every log line. */
  private get logFields(): object {
    return { organization_id: this.organizationId, connection_id: this.connectionId };
  }
}

function getQueueKey(clientDeviceId: string): string {
  return `device ${clientDeviceId}`;
}
