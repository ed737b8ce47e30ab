import type { Clock } from '../../../kernel/clock';
import { normalizeId, UUID } from '../../../kernel/ids';
import type { Logger } from '../../../kernel/logger';
import { truncate } from '../../../kernel/truncate';
import type { ConnectorEvents, Evidence, UplinkMessage } from '../../connector';
import { formatBytesExample } from '../../dataWarning';
import type { DataWarningReporter } from '../../dataWarningReporter';
import { reportOutcome } from '../../uplinkWarnings';
import { RetryingWriter } from '../broker/retryingWriter';
import { type Device, evictLeastRecentlyUsed, findCommand, isOlderThan, markEventsMissed } from './chirpStackDevice';
import type { ChirpStackEvent } from './chirpStackEvent';
import { toAckEvidence, toLogEvidence, toTxAckEvidence, type Frame } from './chirpStackEvidence';
import type { ChirpStackReader, UnusedEvent } from './chirpStackReader';
import {
  isDecoded,
  getReceptionTime,
  toLocationMessage,
  toStatusMessage,
  toUplinkMessage,
  type Arrival,
} from './chirpStackUplinks';
import type { Delivery, EventMessage } from './eventMessage';
import { PendingUplink, PendingUplinkBuffer, type ReceivedAck } from './pendingUplink';
import { type SentCommand, InFlightCommand, RECEIVE_WINDOW_MS } from './inFlightCommand';

/** The options of ChirpStackInbox. */
interface ChirpStackInboxOptions {
  readonly organizationId: string;
  readonly connectionId: string;
  readonly reader: ChirpStackReader;
  readonly events: ConnectorEvents;
  readonly clock: Clock;
  readonly log: Logger;
  /** Receives events that can never be used, or could not be read. */
  readonly dataWarnings: Pick<DataWarningReporter, 'report'>;
  /** Called when `isStalled` changes. */
  readonly onStalled: () => void;
  /** How long an uplink waits for an acknowledgement in the same frame, milliseconds; default 5 s. */
  readonly ackWaitMs?: number;
  /** The retry interval after a database failure, milliseconds; default 1 s. */
  readonly retryMs?: number;
}

const SOURCE = 'chirpstack';
const CANNOT_BE_STORED = 'cannot_be_stored: see chirpstack.write_failed in the log of the server for the reason';
const DEFAULT_ACK_WAIT_MS = 5000;
const MAX_LOGGED_TOPIC_LENGTH = 255;
const NO_BYTES = Buffer.alloc(0);
const MAX_DEVICES = 20_000;
/** The maximum number of commands per device that events are matched with; older ones have expired long ago. */
const MAX_SENT_COMMANDS = 16;

/**
 * Processes the events of one connection: sequentially per device, concurrently for different devices. After a restart,
 * it is unknown which commands are open: then uplinks are stored without waiting for an acknowledgement, and the
 * executions module evaluates them again when it arrives.
 */
export class ChirpStackInbox {
  private readonly devices = new Map<string, Device>();
  /** The devices by the ids of the executions that were sent to them and that events may refer to. */
  private readonly deviceByExecution = new Map<string, Device>();
  private readonly pendingUplinks = new PendingUplinkBuffer();
  private readonly writer: RetryingWriter;
  /** When the current broker link was established, on the monotonic clock: no later event is missed. */
  private connectedAt: number;

  constructor(private readonly options: ChirpStackInboxOptions) {
    const { clock, log, retryMs, onStalled } = options;
    this.writer = new RetryingWriter({
      clock,
      log,
      fields: this.getLogFields(),
      component: 'chirpstack',
      retryMs,
      onStalled,
    });
    this.connectedAt = clock.monotonic();
  }

  /** Whether an event has been waiting for the database for some seconds. */
  get isStalled(): boolean {
    return this.writer.isStalled;
  }

  /** Reports a new broker link: events from before it may never arrive. */
  markConnected(): void {
    this.connectedAt = this.options.clock.monotonic();
    for (const device of this.devices.values()) markEventsMissed(device);
  }

  /**
   * Processes a message. Resolves when its content is stored, or discarded because it can never be stored. Rejects only
   * if its signal aborted first.
   */
  async handleMessage(message: EventMessage): Promise<void> {
    const read = this.options.reader.read(message.topic, message.payload);
    if ('why' in read) {
      this.logUnused(read, message);
      return;
    }
    const { devEui, event } = read;
    const { organizationId, connectionId } = this.options;
    this.options.log.debug({ connection_id: connectionId, dev_eui: devEui, event: event.kind }, 'chirpstack.event');
    const isBuffered = message.isBuffered || message.retained;
    const arrival: Arrival = {
      organizationId,
      connectionId,
      devEui,
      deviceClass: event.device.deviceClass,
      receivedAt: message.receivedAt,
      isBuffered,
      isRetained: message.retained,
      identity: message.identity,
    };
    const device = this.findOrCreateDevice(devEui);
    if (message.identity.kind === 'none') markEventsMissed(device); // events with QoS 0 may be lost
    await this.handleEvent(device, arrival, event, message);
  }

  /** Tracks a command that is being sent to a device. */
  trackCommand(command: SentCommand): void {
    const device = this.findOrCreateDevice(command.clientDeviceId);
    const { clock } = this.options;
    const lastPossibleFrameAt = Math.max(device.lastFrameAt, this.connectedAt);
    // The receive windows of a recent frame, or of one that was missed before the connection, may still be open.
    const mayHaveBeenTransmitted = clock.monotonic() - lastPossibleFrameAt < RECEIVE_WINDOW_MS;
    device.commands.push(new InFlightCommand(command, clock.now(), mayHaveBeenTransmitted));
    this.deviceByExecution.set(command.executionId, device);
    const [oldest] = device.commands; // sorted by the time of sending
    if (oldest && device.commands.length > MAX_SENT_COMMANDS) this.forget(oldest.executionId);
  }

  /** Stops tracking a command that is final, or that no later event is matched with. */
  forget(executionId: string): void {
    const device = this.deviceByExecution.get(executionId);
    if (device) device.commands = device.commands.filter((command) => command.executionId !== executionId);
    this.deviceByExecution.delete(executionId);
  }

  /** Stops all uplinks from waiting for acknowledgements. */
  release(): void {
    this.pendingUplinks.releaseAll();
  }

  /** Releases all waiting uplinks. Resolves when everything received is stored. */
  async waitUntilIdle(): Promise<void> {
    this.release();
    await Promise.allSettled([...this.devices.values()].map(async ({ tail }) => await tail));
  }

  /**
   * Stores evidence about a command on its way to the network server, in order with the events of its device. Rejects
   * only if the signal aborted before it was stored.
   */
  async storeEvidence(devEui: string, executionId: string, evidence: Evidence, signal: AbortSignal): Promise<void> {
    const device = this.findOrCreateDevice(devEui);
    await this.runInOrder(device, { signal }, async () => await this.applyEvidence(executionId, evidence));
  }

  /** Processes an event of a device, in order with earlier ones. Rejects only if the signal aborted first. */
  private async handleEvent(
    device: Device,
    arrival: Arrival,
    event: ChirpStackEvent,
    message: Delivery,
  ): Promise<void> {
    const { devEui, receivedAt } = arrival;
    switch (event.kind) {
      case 'up':
        return await this.handleUplink(device, arrival, event, message);
      case 'ack':
        return await this.handleAck(device, arrival, { event, receivedAt }, message);
      case 'txack':
        return await this.handleTxAck(device, arrival, event, message);
      case 'log':
        return await this.handleLog(device, arrival, event, message);
      case 'status':
      case 'location': {
        const uplink = event.kind === 'status' ? toStatusMessage(arrival, event) : toLocationMessage(arrival, event);
        return await this.runInOrder(device, message, async () => await this.storeUplink(uplink, message));
      }
      case 'join':
        device.frame = undefined; // the frame counter restarts
        markEventsMissed(device); // the queue may have been cleared without an event
        this.options.log.info({ ...this.getLogFields(), dev_eui: devEui }, 'chirpstack.joined');
        return;
    }
  }

  /** Stores an uplink; a possible acknowledgement in the same frame is stored before it. */
  private async handleUplink(
    device: Device,
    arrival: Arrival,
    event: ChirpStackEvent & { kind: 'up' },
    message: Delivery,
  ): Promise<void> {
    device.pendingUplink?.release(); // the acknowledgement of the previous frame would have arrived before this frame
    const frame: Frame = {
      deduplicationId: event.deduplicationId,
      receivedAt: arrival.receivedAt,
      time: getReceptionTime(event),
      fCnt: event.fCnt,
      devAddr: event.devAddr || undefined,
      isDecoded: isDecoded(event),
    };
    // The broker delivers a message again if the PUBACK of this server did not reach it.
    const isRepeated = device.frame?.deduplicationId === frame.deduplicationId;
    if (!isRepeated && !isOlderThan(frame, device.frame)) device.frame = frame;
    device.lastFrameAt = this.options.clock.monotonic();
    for (const command of device.commands) command.frameReceived(frame.time);
    const pendingUplink = isRepeated ? undefined : this.waitForAck(device, frame);
    device.pendingUplink = pendingUplink;
    await this.runInOrder(device, message, async () => {
      const ack = await pendingUplink?.ack;
      // Stored first: the device sent this frame after it received the command, so the frame may show its effect.
      if (ack) await this.acknowledge(arrival, ack, frame);
      await this.storeUplink(toUplinkMessage(arrival, event), message);
    });
  }

  /** Lets an uplink wait for an acknowledgement; undefined if none can arrive with this frame. */
  private waitForAck({ commands }: Device, { deduplicationId }: Frame): PendingUplink | undefined {
    const newest = commands.at(-1); // the only open command of the device
    const mayBeAcknowledged = newest?.confirmed === true && newest.isTransmitted;
    if (!mayBeAcknowledged || deduplicationId === '') return undefined;
    const pendingUplink = new PendingUplink(deduplicationId, this.options.ackWaitMs ?? DEFAULT_ACK_WAIT_MS);
    this.pendingUplinks.add(pendingUplink);
    return pendingUplink;
  }

  /** Stores the evidence that a gateway accepted a downlink for transmission. */
  private async handleTxAck(
    device: Device,
    arrival: Arrival,
    event: ChirpStackEvent & { kind: 'txack' },
    message: Delivery,
  ): Promise<void> {
    // ChirpStack publishes the acknowledgement in a frame before it sends the next downlink, so none will arrive.
    device.pendingUplink?.release();
    const command = findCommand(device, event.queueItemId);
    if (command) {
      command.isTransmitted = true;
      // an unconfirmed command has left the queue of ChirpStack, and the device will not respond to it
      if (!command.confirmed) this.forget(command.executionId);
    }
    const evidence = toTxAckEvidence(event, arrival.receivedAt, arrival.deviceClass, device.frame);
    await this.runInOrder(device, message, async () => await this.applyEvidence(event.queueItemId, evidence));
  }

  /** Passes an acknowledgement to the uplink that waits for it, or stores it. */
  private async handleAck(device: Device, arrival: Arrival, ack: ReceivedAck, message: Delivery): Promise<void> {
    // The job of the waiting uplink stores the acknowledgement: wait for it.
    if (device.pendingUplink?.acceptAck(ack)) return await device.tail;
    const { frame } = device;
    const isSameFrame =
      frame !== undefined && ack.event.deduplicationId !== '' && frame.deduplicationId === ack.event.deduplicationId;
    await this.runInOrder(
      device,
      message,
      async () => await this.acknowledge(arrival, ack, isSameFrame ? frame : undefined),
    );
  }

  /** Stores the evidence of an acknowledgement. `frame`: the frame that contained it; undefined if unknown. */
  private async acknowledge(
    { deviceClass }: Arrival,
    { event, receivedAt }: ReceivedAck,
    frame: Frame | undefined,
  ): Promise<void> {
    await this.applyEvidence(event.queueItemId, toAckEvidence(event, receivedAt, deviceClass, frame));
  }

  /** Logs a log event, and stores the outcome of a downlink that it reports. */
  private async handleLog(
    device: Device,
    arrival: Arrival,
    event: ChirpStackEvent & { kind: 'log' },
    message: Delivery,
  ): Promise<void> {
    const { code, queueItemId } = event;
    const isProvablyUnsent = arrival.deviceClass === 'A' && findCommand(device, queueItemId)?.isProvablyUnsent === true;
    const evidence = toLogEvidence(event, arrival.receivedAt, isProvablyUnsent);
    this.options.log.info(
      { ...this.getLogFields(), dev_eui: arrival.devEui, code, queue_item_id: queueItemId },
      'chirpstack.log_event',
    );
    if (!evidence) return;
    // As with a txack: the event is about a downlink, and ChirpStack sends those after acknowledgements.
    device.pendingUplink?.release();
    await this.runInOrder(device, message, async () => {
      if (code === 'DOWNLINK_GATEWAY') await this.applyEvidenceWithoutId(device, arrival.devEui, evidence);
      else await this.applyEvidence(queueItemId, evidence);
    });
  }

  /** Stores evidence about the execution with this id; ignores ids that this server did not create. */
  private async applyEvidence(queueItemId: string, evidence: Evidence): Promise<void> {
    const executionId = normalizeId(queueItemId);
    if (!UUID.test(executionId)) return; // it is empty, or the id of a downlink of another program
    const { organizationId, connectionId, events, log } = this.options;
    const outcome = await events.evidence(organizationId, connectionId, executionId, SOURCE, evidence);
    // All other evidence says that the command is not in the queue of the network server (any more).
    if (evidence.kind !== 'transport_ok') this.forget(executionId);
    if (outcome === 'unknown')
      log.debug(
        { ...this.getLogFields(), execution_id: executionId, evidence: evidence.kind },
        'chirpstack.execution_unknown',
      );
  }

  /**
   * Stores evidence from a log event without a queue item id: it applies to the command that the network server had at
   * that time. The command stays tracked, because the network server will try to send it again and later events refer
   * to it. Without a tracked command, for example after a restart, it applies to the execution that is in transit to
   * the device.
   */
  private async applyEvidenceWithoutId({ commands }: Device, devEui: string, evidence: Evidence): Promise<void> {
    const { organizationId, connectionId, events } = this.options;
    const reportedAt = evidence.time ?? Infinity;
    // If the clock of the network server is behind, all commands can seem to be sent later. Only the newest is open.
    const command = commands.findLast(({ sentAt }) => sentAt <= reportedAt) ?? commands.at(-1);
    if (command) await events.evidence(organizationId, connectionId, command.executionId, SOURCE, evidence);
    else await events.deviceEvidence(organizationId, connectionId, devEui, SOURCE, evidence);
  }

  /** Stores an uplink. An uplink that can never be stored is only reported. */
  private async storeUplink(uplink: UplinkMessage, { topic, payload = NO_BYTES }: Delivery): Promise<void> {
    const { dataWarnings, events } = this.options;
    const formatExample = (): string => formatBytesExample(payload);
    reportOutcome(dataWarnings, uplink, await events.uplink(uplink), { topic, formatExample });
  }

  /** Runs a job after all earlier jobs of the device, even if they failed. Rejects only if the signal aborted first. */
  private async runInOrder(device: Device, message: Delivery, job: () => Promise<void>): Promise<void> {
    device.pendingJobs += 1;
    const done = device.tail.catch(() => {}).then(async () => await this.runWithRetries(message, job));
    device.tail = done;
    try {
      await done;
    } finally {
      device.pendingJobs -= 1;
    }
  }

  /** Runs a job with retries. A job that can never succeed is discarded, so that it does not block later ones. */
  private async runWithRetries(message: Delivery, job: () => Promise<void>): Promise<void> {
    if ((await this.writer.run(message.signal, job)) === 'given_up') this.rejectMessage(message, CANNOT_BE_STORED);
  }

  /** Logs an event that is not for this connection, and reports an invalid one. */
  private logUnused({ kind, why, detail }: UnusedEvent, message: EventMessage): void {
    if (kind === 'rejected') return this.rejectMessage(message, `${why}: ${detail}`);
    const topic = truncate(message.topic, MAX_LOGGED_TOPIC_LENGTH);
    this.options.log.debug({ ...this.getLogFields(), reason: why, detail, topic }, 'chirpstack.event_ignored');
  }

  /** Reports a message that can never be used. */
  private rejectMessage({ topic, payload = NO_BYTES }: Delivery, reason: string): void {
    const clientDeviceId = topic === undefined ? undefined : this.options.reader.findDevEui(topic);
    const example = formatBytesExample(payload);
    this.options.dataWarnings.report('uplinks_rejected', { topic, clientDeviceId, reason, example });
  }

  /** Returns the device, and marks it as the most recently used one. */
  private findOrCreateDevice(devEui: string): Device {
    const existing = this.devices.get(devEui);
    const device = existing ?? {
      tail: Promise.resolve(),
      pendingJobs: 0,
      frame: undefined,
      lastFrameAt: Number.NEGATIVE_INFINITY,
      pendingUplink: undefined,
      commands: [],
    };
    this.devices.delete(devEui); // re-inserted at the end: the order of the map is the order of use
    if (!existing && this.devices.size >= MAX_DEVICES) evictLeastRecentlyUsed(this.devices);
    this.devices.set(devEui, device);
    return device;
  }

  private getLogFields(): object {
    return { organization_id: this.options.organizationId, connection_id: this.options.connectionId };
  }
}
