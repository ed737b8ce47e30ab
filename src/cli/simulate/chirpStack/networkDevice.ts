import { randomBytes, randomUUID } from 'node:crypto';
import type { Answer } from '../playing';
import { DownlinkQueue, type QueueItem } from './downlinkQueue';
import { ackEvent, joinEvent, logEvent, statusEvent, txAckEvent, upEvent, type EventSource, type NetworkEvent } from './eventMessages';
import type { LorawanDevice } from './lorawanDevices';

/** How the devices behave. */
export interface DeviceOptions {
  readonly applicationId: string;
  readonly answer: Answer;
  /** From a downlink to the uplink that follows it, milliseconds. */
  readonly answerDelayMs: number;
  /** There is no codec: uplinks come with their bytes alone. */
  readonly raw?: boolean;
}

/** What a device has the network server do. */
export interface DeviceHooks {
  readonly publish: (device: LorawanDevice, event: NetworkEvent) => void;
  readonly report: (event: string, fields: Readonly<Record<string, unknown>>) => void;
}

/** A confirmed downlink that was sent and is neither acknowledged nor given up. */
interface Pending {
  readonly item: QueueItem;
  readonly fCntDown: number;
  /** The device heard it, so its next uplink acknowledges. */
  readonly isHeard: boolean;
  /** Class C: when it is given up. */
  readonly timer: NodeJS.Timeout | undefined;
}

// The largest payload at data rate 5 in EU868.
const MOST_BYTES = 242;
const CLASS_C_TIMEOUT_MS = 5000;
const STATUS_EVERY = 10;

/** A device as its network server keeps it: session, counters, queue. Events come in the order in which ChirpStack sends them. */
export class NetworkDevice {
  private readonly queue = new DownlinkQueue();
  private readonly timers = new Set<NodeJS.Timeout>();
  private pending: Pending | undefined;
  private devAddr = '';
  private fCnt = 0;
  private fCntDown = 0;

  constructor(
    private readonly device: LorawanDevice,
    private readonly options: DeviceOptions,
    private readonly hooks: DeviceHooks,
  ) {}

  /** A new session: counters begin anew, and what was in the queue is gone without an event. */
  join(): void {
    const flushed = this.queue.flush() + (this.pending ? 1 : 0);
    clearTimeout(this.pending?.timer);
    this.pending = undefined;
    this.devAddr = randomBytes(4).toString('hex');
    this.fCnt = 0;
    this.fCntDown = 0;
    this.hooks.publish(this.device, joinEvent(this.source(), this.devAddr));
    this.hooks.report('device.joined', { device: this.device.devEui, flushed });
  }

  /** The device is heard: `up`, then the verdict of a confirmed downlink, then what may be sent to it now. */
  uplink(): void {
    const deduplicationId = randomUUID();
    const fCnt = this.fCnt++;
    const values = decoded(this.device.device.read());
    this.hooks.publish(this.device, upEvent(this.source(), { deduplicationId, devAddr: this.devAddr, fCnt, confirmed: false, values, isRaw: this.options.raw === true }));
    this.hooks.report('uplink.sent', { device: this.device.devEui, name: this.device.name, f_cnt: fCnt, values });
    this.settle(deduplicationId);
    if (fCnt % STATUS_EVERY === 1) this.hooks.publish(this.device, statusEvent(this.source(), 12, 94.88));
    this.send();
  }

  /** Takes a downlink into the queue. Class C hears at once. */
  enqueue(item: QueueItem): void {
    const isNew = this.pending?.item.id !== item.id && this.queue.add(item);
    if (!isNew) return this.hooks.report('queue.refused', { device: this.device.devEui, item: item.id, message: 'an item with this id is there already' });
    this.hooks.report('queue.item_added', { device: this.device.devEui, name: this.device.name, item: item.id, confirmed: item.confirmed, f_port: item.fPort, payload: shown(item) });
    if (this.device.deviceClass === 'C') this.send();
  }

  /** Drops what is under way. */
  stop(): void {
    for (const timer of this.timers) clearTimeout(timer);
    clearTimeout(this.pending?.timer);
  }

  /** Sends the next item, unless a confirmed one is waited for. */
  private send(): void {
    if (this.pending) return;
    const { item, expired } = this.queue.take(Date.now());
    for (const { id } of expired) this.log('WARNING', 'EXPIRED', 'Device queue-item discarded because it has expired', { queue_item_id: id });
    if (!item) return;
    if (item.payload instanceof Uint8Array && item.payload.length > MOST_BYTES) {
      this.log('ERROR', 'DOWNLINK_PAYLOAD_SIZE', 'Device queue-item discarded because of max payload size', { queue_item_id: item.id, item_size: String(item.payload.length), max_payload_size: String(MOST_BYTES) });
      return this.send();
    }
    const fCntDown = this.fCntDown++;
    if (item.confirmed) this.pending = { item, fCntDown, isHeard: this.options.answer !== 'no_answer', timer: this.device.deviceClass === 'C' ? setTimeout(() => this.settle(randomUUID()), CLASS_C_TIMEOUT_MS + this.options.answerDelayMs) : undefined };
    this.hooks.publish(this.device, txAckEvent(this.source(), item, fCntDown));
    this.hooks.report('downlink.sent', { device: this.device.devEui, name: this.device.name, item: item.id, f_cnt_down: fCntDown });
    this.later(() => this.heard(item));
    if (this.device.deviceClass === 'C') this.send();
  }

  /** What the device does with a downlink. One that is told to reject hears it and does nothing. */
  private heard(item: QueueItem): void {
    const { answer } = this.options;
    if (answer === 'no_answer') return;
    const { ok, message } = answer === 'reject' ? { ok: false, message: 'the simulator was told to reject commands' } : this.device.device.act(item.payload);
    this.hooks.report('command.done', { device: this.device.devEui, name: this.device.name, item: item.id, ok, message });
    if (ok || item.confirmed) this.uplink();
  }

  /** Ends the confirmed downlink that is waited for: acknowledged if the device heard it. */
  private settle(deduplicationId: string): void {
    const { pending } = this;
    if (!pending) return;
    clearTimeout(pending.timer);
    this.pending = undefined;
    this.hooks.publish(this.device, ackEvent(this.source(), pending.item, deduplicationId, pending.fCntDown, pending.isHeard));
    this.hooks.report('downlink.settled', { device: this.device.devEui, item: pending.item.id, acknowledged: pending.isHeard });
  }

  private log(level: 'WARNING' | 'ERROR', code: string, description: string, context: Readonly<Record<string, string>>): void {
    this.hooks.publish(this.device, logEvent(this.source(), level, code, description, context));
    this.hooks.report('downlink.dropped', { device: this.device.devEui, code, ...context });
  }

  private later(work: () => void): void {
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      work();
    }, this.options.answerDelayMs);
    this.timers.add(timer);
  }

  private source(): EventSource {
    return { applicationId: this.options.applicationId, device: this.device, time: Date.now() };
  }
}

/** The values as a codec would give them: a room sensor keeps its own under `object` already. */
function decoded(values: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { object } = values;
  return typeof object === 'object' && object !== null ? (object as Readonly<Record<string, unknown>>) : values;
}

function shown({ payload }: QueueItem): unknown {
  return payload instanceof Uint8Array ? Buffer.from(payload).toString('hex') : payload;
}
