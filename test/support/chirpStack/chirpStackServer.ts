import { randomUUID } from 'node:crypto';
import { connectAsync, type IClientOptions, type MqttClient } from 'mqtt';
import { DeviceState, type Discarded, type QueueItem } from './deviceQueue';
import type { ClassName, DownCommand, Encoding, Event, InfoOfDevice } from './events';
import { readCommand, write } from './wire';

/** What the devices do by themselves. */
export interface AutoPlay {
  /** What the uplink after a command shows. */
  readonly reply: (devEui: string, item: QueueItem) => Readonly<Record<string, unknown>>;
  /** Told of each command that goes over the air. */
  readonly transmitted?: (devEui: string, item: QueueItem) => void;
}

/** What the stand-in is set to. */
export interface ChirpStackOptions {
  readonly url: string;
  /** UUID. */
  readonly applicationId: string;
  readonly encoding: Encoding;
  readonly username?: string;
  readonly password?: string;
  /** Of the integration; ChirpStack's own default is 0, the stand-in's 1. */
  readonly qos?: 0 | 1;
  /** Unix milliseconds; the machine's clock where nothing is said. */
  readonly now?: () => number;
  /** Plays the devices and the gateways as well: each command is sent, taken, and answered by an uplink with what `reply` shows. */
  readonly auto?: AutoPlay;
}

/** What an uplink shows; the rest is ordinary. */
export interface UplinkOptions {
  readonly data?: Uint8Array;
  /** What the network server's codec decodes. */
  readonly object?: Readonly<Record<string, unknown>>;
  /** The frame has the ACK bit. */
  readonly acknowledges?: boolean;
  readonly fPort?: number;
  /** That of another application. */
  readonly applicationId?: string;
  readonly deduplicationId?: string;
}

type LogEvent = Extract<Event, { kind: 'log' }>;

const LARGEST_PAYLOAD = 51;
const COMMANDS = 'application/+/device/+/command/+';

/**
 * Stands for a ChirpStack v4 with its MQTT integration, its gateways and devices: keeps the queues, publishes the events in the order in
 * which ChirpStack does, and has its awkward sides. A test plays it step by step; with `auto` it plays itself. What nobody is told stands
 * in `errors`, as in ChirpStack's own log.
 */
export class ChirpStackServer {
  /** The own log. */
  readonly errors: string[] = [];
  /** Every command that was well-formed, in order. */
  readonly commands: DownCommand[] = [];
  /** The ids of what went over the air, once for each time. */
  readonly transmitted: string[] = [];
  /** Every event as it was published, in order. */
  readonly published: { readonly topic: string; readonly payload: Buffer }[] = [];
  private readonly devices = new Map<string, DeviceState>();
  private client: MqttClient | undefined;
  private held: Event[] | undefined;
  private waiting: (() => void)[] = [];

  constructor(private readonly options: ChirpStackOptions) {}

  /** Connects and listens for commands. Also after a stop: the queues are as they were. */
  async start(): Promise<void> {
    const { url, username, password } = this.options;
    const client = await connectAsync({ ...addressOf(url), clean: true, reconnectPeriod: 0, ...(username !== undefined && { username, password: password ?? '' }) });
    client.on('message', (topic, payload) => this.take(topic, payload));
    await client.subscribeAsync(COMMANDS, { qos: 1 });
    this.client = client;
  }

  /** Goes away, as for a restart: nothing is taken or published any more. */
  async stop(): Promise<void> {
    await this.client?.endAsync();
    this.client = undefined;
  }

  /** Goes away at once, without a word: also from a broker that is not there any more. */
  async drop(): Promise<void> {
    await this.client?.endAsync(true);
    this.client = undefined;
  }

  /** Registers a device. */
  addDevice(devEui: string, className: ClassName = 'CLASS_A'): void {
    this.devices.set(devEui, new DeviceState(devEui, className));
  }

  /** What waits for a device, in order. */
  queueOf(devEui: string): readonly QueueItem[] {
    return this.device(devEui).queue;
  }

  /** Resolves when the condition holds; looks whenever a command came or something was sent. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  /** A frame of a device: `up`, then the `ack` that it brought, then for class A a downlink. Answers the deduplication id. */
  async uplink(devEui: string, options: UplinkOptions = {}): Promise<string> {
    const device = this.device(devEui);
    const { data = Buffer.from('01', 'hex'), object, acknowledges = false, fPort = 1, applicationId, deduplicationId = randomUUID() } = options;
    const deviceInfo = { ...this.infoOf(device), ...(applicationId !== undefined && { applicationId }) };
    const now = this.now();
    device.fCntUp += 1;
    await this.publish({ kind: 'up', deduplicationId, time: now - 20, nsTime: now, deviceInfo, fCnt: device.fCntUp, fPort, data, object, rssi: -57, snr: 9.5 });
    const item = acknowledges ? device.acknowledge() : undefined;
    if (item) await this.publishAck(device, deduplicationId, item.id, true);
    if (device.className === 'CLASS_A') await this.computeDownlink(device, deduplicationId, false);
    return deduplicationId;
  }

  /** For class B and C: computes a downlink as the scheduler does. `isTimedOut`: the device had its time to acknowledge. */
  async schedule(devEui: string, isTimedOut = false): Promise<void> {
    await this.computeDownlink(this.device(devEui), '', isTimedOut);
  }

  /** What the gateway says about what it was given; `lost`: it sends it, and its answer never comes. */
  async txAck(devEui: string, outcome: 'ok' | 'error' | 'lost' = 'ok'): Promise<void> {
    const device = this.device(devEui);
    const item = device.atGateway;
    if (!item) throw new Error(`no gateway holds a downlink for ${devEui}`);
    if (outcome === 'error') {
      device.atGateway = undefined; // it stays in the queue
      return await this.log(devEui, 'DOWNLINK_GATEWAY', { description: 'TOO_LATE', context: {} });
    }
    this.transmitted.push(item.id);
    this.options.auto?.transmitted?.(devEui, item);
    this.tell();
    if (outcome === 'lost') return;
    const { fCntDown } = device;
    device.taken(item);
    await this.publish({ kind: 'txack', time: this.now(), deviceInfo: this.infoOf(device), queueItemId: item.id, fCntDown });
  }

  /** A device joins again: its queue is gone, and no event says so. */
  async join(devEui: string): Promise<void> {
    const device = this.device(devEui);
    device.flush();
    await this.publish({ kind: 'join', deduplicationId: randomUUID(), time: this.now(), deviceInfo: this.infoOf(device), devAddr: '00189440' });
  }

  /** A log event about a device. */
  async log(devEui: string, code: LogEvent['code'], { description = code, context = {} }: Partial<Pick<LogEvent, 'description' | 'context'>> = {}): Promise<void> {
    await this.publish({ kind: 'log', time: this.now(), deviceInfo: this.infoOf(this.device(devEui)), level: 'ERROR', code, description, context });
  }

  /** The device says how it is. */
  async status(devEui: string, { margin = 10, batteryLevel = 75.5 }: { readonly margin?: number; readonly batteryLevel?: number } = {}): Promise<void> {
    await this.publish({ kind: 'status', deduplicationId: randomUUID(), time: this.now(), deviceInfo: this.infoOf(this.device(devEui)), margin, externalPowerSource: false, batteryLevelUnavailable: false, batteryLevel });
  }

  /** The network server says where the device is. */
  async location(devEui: string, latitude: number, longitude: number): Promise<void> {
    await this.publish({ kind: 'location', deduplicationId: randomUUID(), time: this.now(), deviceInfo: this.infoOf(this.device(devEui)), latitude, longitude });
  }

  /** An acknowledgement by hand, whatever the queue says. */
  async ack(devEui: string, deduplicationId: string, queueItemId: string, acknowledged: boolean): Promise<void> {
    await this.publishAck(this.device(devEui), deduplicationId, queueItemId, acknowledged);
  }

  /** From now on events are kept back. */
  hold(): void {
    this.held = [];
  }

  /** Publishes what was kept back, in the order that `arrange` gives it. */
  async release(arrange: (events: readonly Event[]) => readonly Event[] = (events) => events): Promise<void> {
    const events = this.held ?? [];
    this.held = undefined;
    for (const event of arrange(events)) await this.publish(event);
  }

  /** Publishes the last `count` events once more. */
  async repeat(count = 1): Promise<void> {
    for (const { topic, payload } of this.published.slice(-count)) await this.send(topic, payload);
  }

  /** Publishes anything anywhere. */
  async publishTo(topic: string, payload: Buffer | string): Promise<void> {
    await this.send(topic, payload);
  }

  private take(topic: string, payload: Buffer): void {
    try {
      const command = this.read(topic, payload);
      const data = command.object ? Buffer.from(JSON.stringify(command.object)) : command.data; // the codec of the device profile
      const device = this.device(command.devEui);
      device.enqueue({ ...command, data });
      this.commands.push(command);
      if (this.options.auto) void this.play(device, this.options.auto.reply).catch((error: unknown) => this.errors.push(String(error)));
    } catch (error) {
      this.errors.push(error instanceof Error ? error.message : String(error));
    }
    this.tell();
  }

  /** Throws for a command that ChirpStack does not take. */
  private read(topic: string, payload: Buffer): DownCommand {
    const [, applicationId, , devEui = '', , name] = topic.split('/');
    if (name !== 'down') throw new Error(`Unknown command type ${name}`);
    const command = readCommand(payload, this.options.encoding);
    if (command.devEui !== devEui) throw new Error(`Payload dev_eui ${command.devEui} does not match topic dev_eui ${devEui}`);
    if (applicationId !== this.options.applicationId) throw new Error(`Object does not exist: ${devEui}`);
    if (command.fPort === 0) throw new Error('fPort must be > 0');
    return command;
  }

  private async play(device: DeviceState, reply: AutoPlay['reply']): Promise<void> {
    if (device.className === 'CLASS_A') await this.uplink(device.devEui);
    else await this.schedule(device.devEui);
    const item = device.atGateway;
    if (!item) return;
    await this.txAck(device.devEui);
    await this.uplink(device.devEui, { acknowledges: item.confirmed, object: reply(device.devEui, item) });
  }

  private async computeDownlink(device: DeviceState, deduplicationId: string, isTimedOut: boolean): Promise<void> {
    const { discarded } = device.nextDownlink(this.now(), LARGEST_PAYLOAD, isTimedOut);
    for (const gone of discarded) await this.report(device, deduplicationId, gone);
    this.tell();
  }

  private async report(device: DeviceState, deduplicationId: string, { item, why }: Discarded): Promise<void> {
    const context = { queue_item_id: item.id };
    if (why === 'unacknowledged') return await this.publishAck(device, deduplicationId, item.id, false);
    if (why === 'expired') return await this.log(device.devEui, 'EXPIRED', { description: 'Device queue-item discarded because it has expired', context });
    await this.log(device.devEui, 'DOWNLINK_PAYLOAD_SIZE', {
      description: 'Device queue-item discarded because it exceeds the max. payload size',
      context: { ...context, item_size: String(item.data.length), max_payload_size: String(LARGEST_PAYLOAD) },
    });
  }

  private async publishAck(device: DeviceState, deduplicationId: string, queueItemId: string, acknowledged: boolean): Promise<void> {
    await this.publish({ kind: 'ack', deduplicationId, time: this.now(), deviceInfo: this.infoOf(device), queueItemId, acknowledged, fCntDown: device.fCntDown });
  }

  private async publish(event: Event): Promise<void> {
    if (this.held) return void this.held.push(event);
    const { applicationId, devEui } = event.deviceInfo;
    const topic = `application/${applicationId}/device/${devEui}/event/${event.kind}`;
    const payload = write(event, this.options.encoding);
    this.published.push({ topic, payload });
    await this.send(topic, payload);
  }

  /** What cannot be sent is lost, and only the own log says so. */
  private async send(topic: string, payload: Buffer | string): Promise<void> {
    if (!this.client) return void this.errors.push(`the integration is not connected: ${topic}`);
    await this.client.publishAsync(topic, payload, { qos: this.options.qos ?? 1 });
  }

  private device(devEui: string): DeviceState {
    const device = this.devices.get(devEui);
    if (!device) throw new Error(`the stand-in has no device ${devEui}; add it`);
    return device;
  }

  private infoOf(device: DeviceState): InfoOfDevice {
    return { applicationId: this.options.applicationId, devEui: device.devEui, deviceClassEnabled: device.className };
  }

  private now(): number {
    return this.options.now?.() ?? Date.now();
  }

  private tell(): void {
    const waiting = this.waiting;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }
}

function addressOf(url: string): Pick<IClientOptions, 'protocol' | 'host' | 'port'> {
  const { hostname, port } = new URL(url);
  return { protocol: 'mqtt', host: hostname, port: Number(port) };
}
