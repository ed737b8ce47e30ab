import { setTimeout as sleep } from 'node:timers/promises';
import { DomainError } from '../../../kernel/errors';
import type { Logger } from '../../../kernel/logger';
import type { ConnectorEvents, Evidence, UplinkIdentity, UplinkMessage } from '../../connector';
import type { ChirpStackEvent } from './chirpStackEvent';
import { evidenceOfAck, evidenceOfLog, evidenceOfTxAck, type Frame } from './chirpStackEvidence';
import type { ChirpStackReader, Unread } from './chirpStackReader';
import { receptionTime, uplinkOfLocation, uplinkOfStatus, uplinkOfUp, type Arrival } from './chirpStackUplinks';
import { HeldFrame, type HeldAck } from './heldFrame';
import { UnusedEvents } from './unusedEvents';

/** A message of the broker, as the inbox takes it. */
export interface EventMessage {
  readonly topic: string;
  readonly payload: Buffer;
  readonly retained: boolean;
  readonly isBuffered: boolean;
  readonly receivedAt: number;
  readonly identity: UplinkIdentity;
  /** Aborts when nobody can acknowledge it any more. */
  readonly signal: AbortSignal;
}

/** What taking events in needs. */
export interface ChirpStackInboxOptions {
  readonly organizationId: string;
  readonly connectionId: string;
  readonly reader: ChirpStackReader;
  readonly events: ConnectorEvents;
  readonly log: Logger;
  /** Told whenever something came that can never be used. */
  readonly onRejected: () => void;
  /** How long an uplink waits for the acknowledgement that its frame may have brought; 5 s unless given. */
  readonly holdMs?: number;
  /** After a failure of the database; 1 s unless given. */
  readonly retryMs?: number;
}

interface Device {
  /** Resolves when all that came of it so far is stored. */
  tail: Promise<void>;
  underWay: number;
  frame: Frame | undefined;
  held: HeldFrame | undefined;
  /** The confirmed command that was sent to it last, while it may be acknowledged. */
  awaitsAck: string | undefined;
}

const SOURCE = 'chirpstack';
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const HOLD_MS = 5000;
const RETRY_MS = 1000;
const MOST_DEVICES = 20_000;

/**
 * Takes in the events of one connection: of each device one after another, of different ones side by side. Which confirmed commands are
 * open is not known after a restart: then no uplink waits for its acknowledgement, and the executions judge it when that comes.
 */
export class ChirpStackInbox {
  private readonly devices = new Map<string, Device>();
  /** The devices whose acknowledgement of an execution may come. */
  private readonly awaited = new Map<string, Device>();
  private readonly unused: UnusedEvents;

  constructor(private readonly options: ChirpStackInboxOptions) {
    this.unused = new UnusedEvents(options.log, this.fields());
  }

  /** Resolves when what the message tells is on disk, or it was thrown away because it never can be. Rejects only if its signal aborted before that. */
  async take(message: EventMessage): Promise<void> {
    const read = this.options.reader.read(message.topic, message.payload);
    if ('why' in read) return this.refuse(read, message.topic);
    const { devEui, event } = read;
    const { organizationId, connectionId } = this.options;
    this.options.log.debug({ connection_id: connectionId, dev_eui: devEui, event: event.kind }, 'chirpstack.event');
    const isBuffered = message.isBuffered || message.retained;
    const arrival: Arrival = { organizationId, connectionId, devEui, deviceClass: event.device.deviceClass, receivedAt: message.receivedAt, isBuffered, identity: message.identity };
    await this.handle(this.device(devEui), arrival, event, message.signal);
  }

  /** A command is being sent to a device. A confirmed one may be acknowledged from now on. */
  sending(devEui: string, executionId: string, confirmed: boolean): void {
    const device = this.device(devEui);
    if (device.awaitsAck !== undefined) this.forget(device.awaitsAck); // it has one at a time
    if (!confirmed) return;
    device.awaitsAck = executionId;
    this.awaited.set(executionId, device);
  }

  /** A command came to its end: no acknowledgement of it is waited for. */
  forget(executionId: string): void {
    const device = this.awaited.get(executionId);
    if (device) device.awaitsAck = undefined;
    this.awaited.delete(executionId);
  }

  /** Resolves when all that came in is stored; no uplink waits for an acknowledgement any more. */
  async drained(): Promise<void> {
    for (const { held } of this.devices.values()) held?.release();
    await Promise.allSettled([...this.devices.values()].map(async ({ tail }) => await tail));
  }

  /** What became of a command on its way to the network server, in its turn. Rejects only if the signal aborted before it was on disk. */
  async tell(devEui: string, executionId: string, evidence: Evidence, signal: AbortSignal): Promise<void> {
    const device = this.device(devEui);
    await this.add(device, signal, async () => await this.settle(executionId, evidence));
  }

  private async handle(device: Device, arrival: Arrival, event: ChirpStackEvent, signal: AbortSignal): Promise<void> {
    const { devEui, receivedAt } = arrival;
    switch (event.kind) {
      case 'up':
        return await this.takeUp(device, arrival, event, signal);
      case 'ack':
        return await this.takeAck(device, arrival, { event, receivedAt }, signal);
      case 'txack': {
        device.held?.release(); // the frame's acknowledgement would have come before
        const evidence = evidenceOfTxAck(event, receivedAt, arrival.deviceClass, device.frame);
        return await this.add(device, signal, async () => await this.settle(event.queueItemId, evidence));
      }
      case 'log':
        return await this.takeLog(device, arrival, event, signal);
      case 'status':
        return await this.add(device, signal, async () => await this.store(uplinkOfStatus(arrival, event)));
      case 'location':
        return await this.add(device, signal, async () => await this.store(uplinkOfLocation(arrival, event)));
      case 'join':
        device.frame = undefined; // the frames are counted anew; the queue may be gone without a word
        this.options.log.info({ ...this.fields(), dev_eui: devEui }, 'chirpstack.joined');
        return;
    }
  }

  private async takeUp(device: Device, arrival: Arrival, event: ChirpStackEvent & { kind: 'up' }, signal: AbortSignal): Promise<void> {
    device.held?.release(); // the acknowledgement of the frame before would have come before this one
    const frame: Frame = { deduplicationId: event.deduplicationId, receivedAt: arrival.receivedAt, time: receptionTime(event), fCnt: event.fCnt };
    const isRepeated = device.frame?.deduplicationId === frame.deduplicationId;
    if (!isRepeated && !isOlder(frame, device.frame)) device.frame = frame;
    const waits = device.awaitsAck !== undefined && !isRepeated && frame.deduplicationId !== '';
    const held = waits ? new HeldFrame(frame.deduplicationId, this.options.holdMs ?? HOLD_MS) : undefined;
    device.held = held;
    await this.add(device, signal, async () => {
      const ack = await held?.ack;
      if (ack) await this.acknowledge(arrival, ack, frame); // first: the frame is newer than what it acknowledges
      await this.store(uplinkOfUp(arrival, event));
    });
  }

  private async takeAck(device: Device, arrival: Arrival, ack: HeldAck, signal: AbortSignal): Promise<void> {
    if (device.held?.take(ack)) return await device.tail;
    const { frame } = device;
    const isSame = frame !== undefined && ack.event.deduplicationId !== '' && frame.deduplicationId === ack.event.deduplicationId;
    await this.add(device, signal, async () => await this.acknowledge(arrival, ack, isSame ? frame : undefined));
  }

  private async acknowledge({ deviceClass }: Arrival, { event, receivedAt }: HeldAck, frame: Frame | undefined): Promise<void> {
    await this.settle(event.queueItemId, evidenceOfAck(event, receivedAt, deviceClass, frame));
    this.forget(event.queueItemId);
  }

  private async takeLog(device: Device, arrival: Arrival, event: ChirpStackEvent & { kind: 'log' }, signal: AbortSignal): Promise<void> {
    const { code, queueItemId } = event;
    const evidence = evidenceOfLog(event, arrival.receivedAt);
    this.options.log.info({ ...this.fields(), dev_eui: arrival.devEui, code, queue_item_id: queueItemId }, 'chirpstack.log_event');
    if (!evidence) return;
    await this.add(device, signal, async () => {
      if (evidence.kind === 'network_retry') await this.settleOfDevice(arrival.devEui, evidence);
      else await this.settle(queueItemId, evidence);
    });
  }

  private async settle(executionId: string, evidence: Evidence): Promise<void> {
    if (!UUID.test(executionId)) return; // a downlink of somebody else, or of nobody knows whom
    const { organizationId, connectionId, events, log } = this.options;
    const outcome = await events.evidence(organizationId, connectionId, executionId, SOURCE, evidence);
    if (evidence.kind === 'refused' || evidence.kind === 'unreachable') this.forget(executionId);
    if (outcome === 'unknown') log.debug({ ...this.fields(), execution_id: executionId, evidence: evidence.kind }, 'chirpstack.execution_unknown');
  }

  private async settleOfDevice(devEui: string, evidence: Evidence): Promise<void> {
    const { organizationId, connectionId, events } = this.options;
    await events.deviceEvidence(organizationId, connectionId, devEui, SOURCE, evidence);
  }

  private async store(message: UplinkMessage): Promise<void> {
    const outcome = await this.options.events.uplink(message);
    if (outcome.outcome !== 'rejected') return;
    this.unused.add('rejected', 'uplink_rejected', { dev_eui: message.clientDeviceId, detail: outcome.reason });
    this.options.onRejected();
  }

  /** Does a job when all that came of the device before is stored. */
  private async add(device: Device, signal: AbortSignal, job: () => Promise<void>): Promise<void> {
    device.underWay += 1;
    const done = device.tail.catch(() => {}).then(async () => await this.untilDone(job, signal));
    device.tail = done;
    try {
      await done;
    } finally {
      device.underWay -= 1;
    }
  }

  /** The database may be away for a while: only then the job can succeed later. */
  private async untilDone(job: () => Promise<void>, signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      try {
        return await job();
      } catch (err) {
        this.options.log.error({ ...this.fields(), err }, 'chirpstack.event_failed');
        if (err instanceof DomainError && err.kind === 'not_found') return; // the connection is deleted
        await sleep(this.options.retryMs ?? RETRY_MS, undefined, { signal });
      }
    }
  }

  private refuse({ kind, why, detail }: Unread, topic: string): void {
    this.unused.add(kind, why, { detail, topic: topic.slice(0, 256) });
    if (kind === 'rejected') this.options.onRejected();
  }

  private device(devEui: string): Device {
    const known = this.devices.get(devEui);
    const device = known ?? { tail: Promise.resolve(), underWay: 0, frame: undefined, held: undefined, awaitsAck: undefined };
    this.devices.delete(devEui); // it becomes the youngest
    if (!known && this.devices.size >= MOST_DEVICES) this.dropOldest();
    this.devices.set(devEui, device);
    return device;
  }

  private dropOldest(): void {
    for (const [devEui, { underWay, awaitsAck }] of this.devices) {
      if (underWay > 0 || awaitsAck !== undefined) continue;
      this.devices.delete(devEui);
      return;
    }
  }

  private fields(): object {
    return { organization_id: this.options.organizationId, connection_id: this.options.connectionId };
  }
}

/** Whether a frame was received before another one: it comes late, or again. */
function isOlder(one: Frame, other: Frame | undefined): boolean {
  return one.time !== undefined && other?.time !== undefined && one.time < other.time;
}
