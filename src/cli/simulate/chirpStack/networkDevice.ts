import { randomBytes, randomUUID } from 'node:crypto';
import type { Answer } from '../simulation';
import { DownlinkQueue, type QueueItem } from './downlinkQueue';
import {
  createAckEvent,
  createJoinEvent,
  createLogEvent,
  createStatusEvent,
  createTxAckEvent,
  createUpEvent,
  type EventSource,
  type NetworkEvent,
} from './eventMessages';
import type { LorawanDevice } from './lorawanDevices';

/** The behaviour of the devices. */
export interface DeviceOptions {
  readonly applicationId: string;
  readonly answer: Answer;
  /** From a downlink to the uplink that follows it, milliseconds. */
  readonly answerDelayMs: number;
  /** There is no codec: uplinks only contain their bytes. */
  readonly binaryPayload?: boolean;
}

/** The callbacks of a device. */
interface DeviceHooks {
  readonly publish: (device: LorawanDevice, event: NetworkEvent) => void;
  readonly report: (event: string, fields: Readonly<Record<string, unknown>>) => void;
}

/** A confirmed downlink that was sent, and is neither acknowledged nor given up. */
interface UnacknowledgedDownlink {
  readonly item: QueueItem;
  readonly fCntDown: number;
  /** The device received it, so its next uplink acknowledges it. */
  readonly isReceived: boolean;
  /** Class C: the timeout after which it is given up. */
  readonly timer: NodeJS.Timeout | undefined;
}

// The maximum payload at data rate 5 in EU868.
const MAX_BYTES = 242;
const CLASS_C_TIMEOUT_MS = 5000;
/** The device reports its status once in this number of uplinks. */
const UPLINKS_PER_STATUS = 10;
const LINK_MARGIN_DB = 12;
const BATTERY_PERCENT = 94.88;

/**
 * A device with its state at the network server: session, counters, queue. Events are published in the order of
 * ChirpStack.
 */
export class NetworkDevice {
  private readonly queue = new DownlinkQueue();
  private readonly timers = new Set<NodeJS.Timeout>();
  private unacknowledged: UnacknowledgedDownlink | undefined;
  private devAddr = '';
  private fCntUp = 0;
  private fCntDown = 0;

  constructor(
    private readonly device: LorawanDevice,
    private readonly options: DeviceOptions,
    private readonly hooks: DeviceHooks,
  ) {}

  /** Starts a new session: the counters restart, and the queue is cleared without an event. */
  join(): void {
    const flushed = this.queue.flush() + (this.unacknowledged ? 1 : 0);
    clearTimeout(this.unacknowledged?.timer);
    this.unacknowledged = undefined;
    this.devAddr = randomBytes(4).toString('hex');
    this.fCntUp = 0;
    this.fCntDown = 0;
    this.hooks.publish(this.device, createJoinEvent(this.createEventSource(), this.devAddr));
    this.hooks.report('device.joined', { device: this.device.devEui, flushed });
  }

  /** Simulates an uplink: `up`, then the outcome of a confirmed downlink, then queued downlinks. */
  sendUplink(): void {
    const deduplicationId = randomUUID();
    const fCnt = this.fCntUp++;
    const values = toDecodedValues(this.device.simulated.read());
    this.hooks.publish(
      this.device,
      createUpEvent(this.createEventSource(), {
        deduplicationId,
        devAddr: this.devAddr,
        fCnt,
        confirmed: false,
        values,
        isRaw: this.options.binaryPayload === true,
      }),
    );
    this.hooks.report('uplink.sent', { device: this.device.devEui, name: this.device.name, f_cnt: fCnt, values });
    this.completeUnacknowledged(deduplicationId);
    if (fCnt % UPLINKS_PER_STATUS === 1)
      this.hooks.publish(this.device, createStatusEvent(this.createEventSource(), LINK_MARGIN_DB, BATTERY_PERCENT));
    this.sendDownlinks();
  }

  /** Queues a downlink. Class C devices receive it immediately. */
  enqueue(item: QueueItem): void {
    const isNew = this.unacknowledged?.item.id !== item.id && this.queue.add(item);
    if (!isNew)
      return this.hooks.report('queue.refused', {
        device: this.device.devEui,
        item: item.id,
        message: 'an item with this id is already queued',
      });
    this.hooks.report('queue.item_added', {
      device: this.device.devEui,
      name: this.device.name,
      item: item.id,
      confirmed: item.confirmed,
      f_port: item.fPort,
      payload: item.payload instanceof Uint8Array ? Buffer.from(item.payload).toString('hex') : item.payload,
    });
    if (this.device.deviceClass === 'C') this.sendDownlinks();
  }

  /** Stops all timers. */
  stop(): void {
    for (const timer of this.timers) clearTimeout(timer);
    clearTimeout(this.unacknowledged?.timer);
  }

  /**
   * Sends the next downlink of the queue, and the following ones if the device is of class C, which always receives
   * (class A receives one downlink after an uplink). Nothing is sent while a confirmed downlink is unacknowledged.
   */
  private sendDownlinks(): void {
    if (this.unacknowledged) return;
    const { item, expired } = this.queue.takeNext(Date.now());
    for (const { id } of expired)
      this.publishDropped('WARNING', 'EXPIRED', 'Device queue-item discarded because it has expired', {
        queue_item_id: id,
      });
    if (!item) return;
    if (item.payload instanceof Uint8Array && item.payload.length > MAX_BYTES) {
      this.publishDropped('ERROR', 'DOWNLINK_PAYLOAD_SIZE', 'Device queue-item discarded because of max payload size', {
        queue_item_id: item.id,
        item_size: String(item.payload.length),
        max_payload_size: String(MAX_BYTES),
      });
      return this.sendDownlinks();
    }
    const fCntDown = this.fCntDown++;
    if (item.confirmed)
      this.unacknowledged = {
        item,
        fCntDown,
        isReceived: this.options.answer !== 'no_answer',
        timer:
          this.device.deviceClass === 'C'
            ? setTimeout(
                () => this.completeUnacknowledged(randomUUID()),
                CLASS_C_TIMEOUT_MS + this.options.answerDelayMs,
              )
            : undefined,
      };
    this.hooks.publish(this.device, createTxAckEvent(this.createEventSource(), item, fCntDown));
    this.hooks.report('downlink.sent', {
      device: this.device.devEui,
      name: this.device.name,
      item: item.id,
      f_cnt_down: fCntDown,
    });
    this.schedule(() => this.handleDownlink(item));
    if (this.device.deviceClass === 'C') this.sendDownlinks();
  }

  /** Executes a downlink on the device. With `reject`, the device receives it and does nothing. */
  private handleDownlink(item: QueueItem): void {
    const { answer } = this.options;
    if (answer === 'no_answer') return;
    const { ok, message } =
      answer === 'reject'
        ? { ok: false, message: 'the simulator is configured to reject commands' }
        : this.device.simulated.act(item.payload);
    this.hooks.report('command.done', {
      device: this.device.devEui,
      name: this.device.name,
      item: item.id,
      ok,
      message,
    });
    // The uplink shows the new state; the next uplink also acknowledges a confirmed downlink.
    if (ok || item.confirmed) this.sendUplink();
  }

  /** Reports the outcome of the unacknowledged confirmed downlink: acknowledged if the device received it. */
  private completeUnacknowledged(deduplicationId: string): void {
    const { unacknowledged } = this;
    if (!unacknowledged) return;
    clearTimeout(unacknowledged.timer);
    this.unacknowledged = undefined;
    this.hooks.publish(
      this.device,
      createAckEvent(
        this.createEventSource(),
        unacknowledged.item,
        deduplicationId,
        unacknowledged.fCntDown,
        unacknowledged.isReceived,
      ),
    );
    this.hooks.report('downlink.settled', {
      device: this.device.devEui,
      item: unacknowledged.item.id,
      acknowledged: unacknowledged.isReceived,
    });
  }

  /** Publishes the log event of a downlink that was discarded, and reports it. */
  private publishDropped(
    level: 'WARNING' | 'ERROR',
    code: string,
    description: string,
    context: Readonly<Record<string, string>>,
  ): void {
    this.hooks.publish(this.device, createLogEvent(this.createEventSource(), level, code, description, context));
    this.hooks.report('downlink.dropped', { device: this.device.devEui, code, ...context });
  }

  /** Runs work after the delay of the device, unless it was stopped. */
  private schedule(work: () => void): void {
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      work();
    }, this.options.answerDelayMs);
    this.timers.add(timer);
  }

  private createEventSource(): EventSource {
    return { applicationId: this.options.applicationId, device: this.device, time: Date.now() };
  }
}

/** Returns the values of a reading as a codec would decode them; a room sensor has them in its field `object`. */
function toDecodedValues(values: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { object } = values;
  return typeof object === 'object' && object !== null ? (object as Readonly<Record<string, unknown>>) : values;
}
