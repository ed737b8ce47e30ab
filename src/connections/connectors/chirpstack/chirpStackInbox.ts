import type { Clock } from '../../../kernel/clock';
import type { Logger } from '../../../kernel/logger';
import type { ConnectorEvents, Evidence, UplinkIdentity, UplinkMessage } from '../../connector';
import { Storing } from '../broker/storing';
import type { ChirpStackEvent } from './chirpStackEvent';
import { evidenceOfAck, evidenceOfLog, evidenceOfTxAck, type Frame } from './chirpStackEvidence';
import type { ChirpStackReader, Unread } from './chirpStackReader';
import { receptionTime, uplinkOfLocation, uplinkOfStatus, uplinkOfUp, type Arrival } from './chirpStackUplinks';
import { HeldFrame, HeldFrames, type HeldAck } from './heldFrame';
import { type CommandFacts, SentCommand, WINDOW_MS } from './sentCommand';
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
  readonly clock: Clock;
  readonly log: Logger;
  /** Told whenever something came that can never be used. */
  readonly onRejected: () => void;
  /** Told whenever `isStalled` changed. */
  readonly onStalled: () => void;
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
  /** When a frame came in last, by the monotonic clock. */
  heardAt: number;
  held: HeldFrame | undefined;
  /** The command that was sent to it last, while events may tell of it. */
  command: SentCommand | undefined;
}

const SOURCE = 'chirpstack';
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const HOLD_MS = 5000;
const MOST_DEVICES = 20_000;

/**
 * Takes in the events of one connection: of each device one after another, of different ones side by side. Which commands are open is not
 * known after a restart: then no uplink waits for its acknowledgement, and the executions judge it when that comes.
 */
export class ChirpStackInbox {
  private readonly devices = new Map<string, Device>();
  /** The devices that executions were sent to, of which events may tell. */
  private readonly commanded = new Map<string, Device>();
  private readonly held = new HeldFrames();
  private readonly unused: UnusedEvents;
  private readonly storing: Storing;
  /** Since when all events come, by the monotonic clock. */
  private linkedAt: number;

  constructor(private readonly options: ChirpStackInboxOptions) {
    const { clock, log, retryMs, onStalled } = options;
    this.unused = new UnusedEvents(log, this.fields());
    this.storing = new Storing({ clock, log, fields: this.fields(), component: 'chirpstack', retryMs, onStalled });
    this.linkedAt = clock.monotonic();
  }

  /** Whether something has waited for the database for some seconds. */
  get isStalled(): boolean {
    return this.storing.isStalled;
  }

  /** There is a link again: what happened before it began may never be told. */
  linked(): void {
    this.linkedAt = this.options.clock.monotonic();
    for (const { command } of this.devices.values()) command?.lostSight();
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
    const device = this.device(devEui);
    if (message.identity.kind === 'none') device.command?.lostSight(); // events of QoS 0 may get lost
    await this.handle(device, arrival, event, message.signal);
  }

  /** A command is being sent to a device. */
  sending(command: CommandFacts): void {
    const device = this.device(command.clientDeviceId);
    if (device.command) this.forget(device.command.executionId); // it has one at a time
    const quietSince = Math.max(device.heardAt, this.linkedAt);
    device.command = new SentCommand(command, this.options.clock.monotonic() - quietSince < WINDOW_MS);
    this.commanded.set(command.executionId, device);
  }

  /** A command came to its end: nothing more of it is waited for. */
  forget(executionId: string): void {
    const device = this.commanded.get(executionId);
    if (device) device.command = undefined;
    this.commanded.delete(executionId);
  }

  /** No uplink that is here waits for an acknowledgement any more. */
  release(): void {
    this.held.releaseAll();
  }

  /** Releases, and resolves when all that came in is stored. */
  async drained(): Promise<void> {
    this.release();
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
      case 'txack':
        return await this.takeTxAck(device, arrival, event, signal);
      case 'log':
        return await this.takeLog(device, arrival, event, signal);
      case 'status':
        return await this.add(device, signal, async () => await this.store(uplinkOfStatus(arrival, event)));
      case 'location':
        return await this.add(device, signal, async () => await this.store(uplinkOfLocation(arrival, event)));
      case 'join':
        device.frame = undefined; // the frames are counted anew; the queue may be gone without a word
        device.command?.lostSight();
        this.options.log.info({ ...this.fields(), dev_eui: devEui }, 'chirpstack.joined');
        return;
    }
  }

  private async takeUp(device: Device, arrival: Arrival, event: ChirpStackEvent & { kind: 'up' }, signal: AbortSignal): Promise<void> {
    device.held?.release(); // the acknowledgement of the frame before would have come before this one
    const frame: Frame = { deduplicationId: event.deduplicationId, receivedAt: arrival.receivedAt, time: receptionTime(event), fCnt: event.fCnt };
    const isRepeated = device.frame?.deduplicationId === frame.deduplicationId;
    if (!isRepeated && !isOlder(frame, device.frame)) device.frame = frame;
    device.heardAt = this.options.clock.monotonic();
    device.command?.heard(frame.time);
    const held = isRepeated ? undefined : this.hold(device, frame);
    device.held = held;
    await this.add(device, signal, async () => {
      const ack = await held?.ack;
      if (ack) await this.acknowledge(arrival, ack, frame); // first: the frame is newer than what it acknowledges
      await this.store(uplinkOfUp(arrival, event));
    });
  }

  /** Undefined: no acknowledgement can come with this frame. */
  private hold({ command }: Device, { deduplicationId }: Frame): HeldFrame | undefined {
    if (command?.confirmed !== true || !command.isTransmitted || deduplicationId === '') return undefined;
    const held = new HeldFrame(deduplicationId, this.options.holdMs ?? HOLD_MS);
    this.held.add(held);
    return held;
  }

  private async takeTxAck(device: Device, arrival: Arrival, event: ChirpStackEvent & { kind: 'txack' }, signal: AbortSignal): Promise<void> {
    device.held?.release(); // the frame's acknowledgement would have come before
    const { command } = device;
    if (command?.executionId === event.queueItemId) {
      command.isTransmitted = true;
      if (!command.confirmed) this.forget(command.executionId); // it has left the queue, and the device will say nothing
    }
    const evidence = evidenceOfTxAck(event, arrival.receivedAt, arrival.deviceClass, device.frame);
    await this.add(device, signal, async () => await this.settle(event.queueItemId, evidence));
  }

  private async takeAck(device: Device, arrival: Arrival, ack: HeldAck, signal: AbortSignal): Promise<void> {
    if (device.held?.take(ack)) return await device.tail;
    const { frame } = device;
    const isSame = frame !== undefined && ack.event.deduplicationId !== '' && frame.deduplicationId === ack.event.deduplicationId;
    await this.add(device, signal, async () => await this.acknowledge(arrival, ack, isSame ? frame : undefined));
  }

  private async acknowledge({ deviceClass }: Arrival, { event, receivedAt }: HeldAck, frame: Frame | undefined): Promise<void> {
    await this.settle(event.queueItemId, evidenceOfAck(event, receivedAt, deviceClass, frame));
  }

  private async takeLog(device: Device, arrival: Arrival, event: ChirpStackEvent & { kind: 'log' }, signal: AbortSignal): Promise<void> {
    const { code, queueItemId } = event;
    const { command } = device;
    const isProvablyUnsent = arrival.deviceClass === 'A' && command?.executionId === queueItemId && command.isProvablyUnsent;
    const evidence = evidenceOfLog(event, arrival.receivedAt, isProvablyUnsent);
    this.options.log.info({ ...this.fields(), dev_eui: arrival.devEui, code, queue_item_id: queueItemId }, 'chirpstack.log_event');
    if (!evidence) return;
    device.held?.release(); // as for a txack: it tells of a downlink, and those come after acknowledgements
    await this.add(device, signal, async () => {
      if (code === 'DOWNLINK_GATEWAY') await this.settleOfDevice(arrival.devEui, evidence);
      else await this.settle(queueItemId, evidence);
    });
  }

  private async settle(executionId: string, evidence: Evidence): Promise<void> {
    if (!UUID.test(executionId)) return; // a downlink of somebody else, or of nobody knows whom
    const { organizationId, connectionId, events, log } = this.options;
    const outcome = await events.evidence(organizationId, connectionId, executionId, SOURCE, evidence);
    if (evidence.kind !== 'transport_ok') this.forget(executionId);
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
    const done = device.tail.catch(() => {}).then(async () => await this.untilDone(signal, job));
    device.tail = done;
    try {
      await done;
    } finally {
      device.underWay -= 1;
    }
  }

  /** What nothing can store is thrown away, so that it stops nothing that comes behind it. */
  private async untilDone(signal: AbortSignal, job: () => Promise<void>): Promise<void> {
    if ((await this.storing.run(signal, job)) === 'given_up') this.options.onRejected();
  }

  private refuse({ kind, why, detail }: Unread, topic: string): void {
    this.unused.add(kind, why, { detail, topic: topic.slice(0, 256) });
    if (kind === 'rejected') this.options.onRejected();
  }

  private device(devEui: string): Device {
    const known = this.devices.get(devEui);
    const device = known ?? { tail: Promise.resolve(), underWay: 0, frame: undefined, heardAt: Number.NEGATIVE_INFINITY, held: undefined, command: undefined };
    this.devices.delete(devEui); // it becomes the youngest
    if (!known && this.devices.size >= MOST_DEVICES) this.dropOldest();
    this.devices.set(devEui, device);
    return device;
  }

  private dropOldest(): void {
    for (const [devEui, { underWay, command }] of this.devices) {
      if (underWay > 0 || command) continue;
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
