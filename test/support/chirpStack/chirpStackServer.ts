import { randomUUID } from 'node:crypto';
import { connectAsync, type IClientOptions, type MqttClient } from 'mqtt';
import { DeviceState, type Discarded, type QueueItem } from './deviceQueue';
import type { ClassName, DownCommand, Encoding, Event, InfoOfDevice } from './events';
import { readCommand, write } from './wire';

/** What the devices do automatically. */
export interface AutoReply {
  /** Returns the object of the uplink after a command. */
  readonly reply: (devEui: string, item: QueueItem) => Readonly<Record<string, unknown>>;
  /** Called for each command that is transmitted. */
  readonly transmitted?: (devEui: string, item: QueueItem) => void;
}

/** The settings of the simulated server. */
export interface ChirpStackOptions {
  readonly url: string;
  /** UUID. */
  readonly applicationId: string;
  readonly encoding: Encoding;
  readonly username?: string;
  readonly password?: string;
  /** QoS of the integration. ChirpStack's own default is 0, the default here is 1. */
  readonly qos?: 0 | 1;
  /** Unix milliseconds, by default from the clock of the machine. */
  readonly now?: () => number;
  /**
   * Simulates the devices and the gateways as well: each command is sent, accepted, and answered by an uplink with the
   * result of `reply`.
   */
  readonly auto?: AutoReply;
}

/** The content of an uplink. Other fields get usual values. */
export interface UplinkOptions {
  readonly data?: Uint8Array;
  /** What the network server's codec decodes. */
  readonly object?: Readonly<Record<string, unknown>>;
  /** The frame has the ACK bit. */
  readonly acknowledges?: boolean;
  readonly fPort?: number;
  /** Sends the uplink as one of another application. */
  readonly applicationId?: string;
  readonly deduplicationId?: string;
}

type LogEvent = Extract<Event, { kind: 'log' }>;

const MAX_PAYLOAD_BYTES = 51;
const COMMANDS = 'application/+/device/+/command/+';

/**
 * Simulates a ChirpStack v4 with its MQTT integration, its gateways and devices. It keeps the queues, publishes the
 * events in the order in which ChirpStack does, and has its quirks. A test controls it step by step, or it runs
 * automatically with `auto`. Failures that no event reports are in `errors`, as in ChirpStack's own log.
 */
export class ChirpStackServer {
  /** The server's own log of errors. */
  readonly errors: string[] = [];
  /** Every well-formed command, in order. */
  readonly commands: DownCommand[] = [];
  /** The IDs of the transmitted commands, once for each transmission. */
  readonly transmitted: string[] = [];
  /** Every published event, in order. */
  readonly published: { readonly topic: string; readonly payload: Buffer }[] = [];
  private readonly devices = new Map<string, DeviceState>();
  private client: MqttClient | undefined;
  private held: Event[] | undefined;
  private waiting: (() => void)[] = [];

  constructor(private readonly options: ChirpStackOptions) {}

  /** Connects and listens for commands. After a stop it continues with the same queues. */
  async start(): Promise<void> {
    const { url, username, password } = this.options;
    const client = await connectAsync({
      ...getAddress(url),
      clean: true,
      reconnectPeriod: 0,
      ...(username !== undefined && { username, password: password ?? '' }),
    });
    client.on('message', (topic, payload) => this.acceptCommand(topic, payload));
    await client.subscribeAsync(COMMANDS, { qos: 1 });
    this.client = client;
  }

  /** Disconnects, as for a restart. No command is accepted and no event is published any more. */
  async stop(): Promise<void> {
    await this.client?.endAsync();
    this.client = undefined;
  }

  /** Disconnects at once without a DISCONNECT packet, also from a broker that has stopped. */
  async drop(): Promise<void> {
    await this.client?.endAsync(true);
    this.client = undefined;
  }

  /** Registers a device. */
  addDevice(devEui: string, className: ClassName = 'CLASS_A', hasCodec = true): void {
    this.devices.set(devEui, new DeviceState(devEui, className, hasCodec));
  }

  /** Returns the queue of a device, in order. */
  getQueue(devEui: string): readonly QueueItem[] {
    return this.device(devEui).queue;
  }

  /** Resolves when the condition holds. It is checked whenever a command arrives or something is sent. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  /**
   * Simulates a frame of a device: publishes `up`, then the `ack` that it contained, then for class A sends a downlink.
   * Returns the deduplication ID.
   */
  async uplink(devEui: string, options: UplinkOptions = {}): Promise<string> {
    const device = this.device(devEui);
    const {
      data = Buffer.from('01', 'hex'),
      acknowledges = false,
      fPort = 1,
      applicationId,
      deduplicationId = randomUUID(),
    } = options;
    const object = device.decoded(options.object);
    const deviceInfo = { ...this.getInfo(device), ...(applicationId !== undefined && { applicationId }) };
    const now = this.now();
    device.fCntUp += 1;
    await this.publish({
      kind: 'up',
      deduplicationId,
      time: now - 20,
      nsTime: now,
      deviceInfo,
      devAddr: device.devAddr,
      fCnt: device.fCntUp,
      fPort,
      data,
      object,
      rssi: -57,
      snr: 9.5,
    });
    const item = acknowledges ? device.acknowledge() : undefined;
    if (item) await this.publishAck(device, deduplicationId, item.id, true);
    if (device.className === 'CLASS_A') await this.computeDownlink(device, deduplicationId, false);
    return deduplicationId;
  }

  /**
   * Computes a downlink for class B and C as the scheduler does. `isTimedOut` means that the time for an
   * acknowledgement is over.
   */
  async schedule(devEui: string, isTimedOut = false): Promise<void> {
    await this.computeDownlink(this.device(devEui), '', isTimedOut);
  }

  /**
   * Simulates the response of the gateway to a downlink. With `lost` it transmits the downlink, but its response never
   * arrives.
   */
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
    this.notifyWaiters();
    if (outcome === 'lost') return;
    const { fCntDown } = device;
    device.taken(item);
    await this.publish({
      kind: 'txack',
      time: this.now(),
      deviceInfo: this.getInfo(device),
      queueItemId: item.id,
      fCntDown,
    });
  }

  /** Simulates a join of a device: its queue is discarded, and no event reports it. */
  async join(devEui: string): Promise<void> {
    const device = this.device(devEui);
    device.flush();
    device.startSession();
    await this.publish({
      kind: 'join',
      deduplicationId: randomUUID(),
      time: this.now(),
      deviceInfo: this.getInfo(device),
      devAddr: device.devAddr,
    });
  }

  /** Publishes a log event of a device. */
  async log(
    devEui: string,
    code: LogEvent['code'],
    { description = code, context = {} }: Partial<Pick<LogEvent, 'description' | 'context'>> = {},
  ): Promise<void> {
    await this.publish({
      kind: 'log',
      time: this.now(),
      deviceInfo: this.getInfo(this.device(devEui)),
      level: 'ERROR',
      code,
      description,
      context,
    });
  }

  /** Publishes a status event of the device. */
  async status(
    devEui: string,
    { margin = 10, batteryLevel = 75.5 }: { readonly margin?: number; readonly batteryLevel?: number } = {},
  ): Promise<void> {
    await this.publish({
      kind: 'status',
      deduplicationId: randomUUID(),
      time: this.now(),
      deviceInfo: this.getInfo(this.device(devEui)),
      margin,
      externalPowerSource: false,
      batteryLevelUnavailable: false,
      batteryLevel,
    });
  }

  /** Publishes the location of the device. */
  async location(devEui: string, latitude: number, longitude: number): Promise<void> {
    await this.publish({
      kind: 'location',
      deduplicationId: randomUUID(),
      time: this.now(),
      deviceInfo: this.getInfo(this.device(devEui)),
      latitude,
      longitude,
    });
  }

  /** Publishes an acknowledgement, independent of the queue. */
  async ack(devEui: string, deduplicationId: string, queueItemId: string, acknowledged: boolean): Promise<void> {
    await this.publishAck(this.device(devEui), deduplicationId, queueItemId, acknowledged);
  }

  /** Holds back all later events. */
  hold(): void {
    this.held = [];
  }

  /** Publishes the events that were held back, in the order that `arrange` returns. */
  async release(arrange: (events: readonly Event[]) => readonly Event[] = (events) => events): Promise<void> {
    const events = this.held ?? [];
    this.held = undefined;
    for (const event of arrange(events)) await this.publish(event);
  }

  /** Publishes the last `count` events again. */
  async repeat(count = 1): Promise<void> {
    for (const { topic, payload } of this.published.slice(-count)) await this.send(topic, payload);
  }

  /** Publishes a payload to any topic. */
  async publishTo(topic: string, payload: Buffer | string): Promise<void> {
    await this.send(topic, payload);
  }

  private acceptCommand(topic: string, payload: Buffer): void {
    try {
      const command = this.read(topic, payload);
      const device = this.device(command.devEui);
      // Uses the codec of the device profile. Without one it sends an empty frame and reports nothing (seen in
      // ChirpStack 4.20).
      const data = command.object ? Buffer.from(device.hasCodec ? JSON.stringify(command.object) : '') : command.data;
      device.enqueue({ ...command, data });
      this.commands.push(command);
      if (this.options.auto)
        void this.replyAutomatically(device, this.options.auto.reply).catch((error: unknown) =>
          this.errors.push(String(error)),
        );
    } catch (error) {
      this.errors.push(error instanceof Error ? error.message : String(error));
    }
    this.notifyWaiters();
  }

  /** Throws for a command that ChirpStack does not accept. */
  private read(topic: string, payload: Buffer): DownCommand {
    const [, applicationId, , devEui = '', , name] = topic.split('/');
    if (name !== 'down') throw new Error(`Unknown command type ${name}`);
    const command = readCommand(payload, this.options.encoding);
    if (command.devEui !== devEui)
      throw new Error(`Payload dev_eui ${command.devEui} does not match topic dev_eui ${devEui}`);
    if (applicationId !== this.options.applicationId) throw new Error(`Object does not exist: ${devEui}`);
    if (command.fPort === 0) throw new Error('fPort must be > 0');
    return command;
  }

  private async replyAutomatically(device: DeviceState, reply: AutoReply['reply']): Promise<void> {
    if (device.className === 'CLASS_A') await this.uplink(device.devEui);
    else await this.schedule(device.devEui);
    const item = device.atGateway;
    if (!item) return;
    await this.txAck(device.devEui);
    await this.uplink(device.devEui, { acknowledges: item.confirmed, object: reply(device.devEui, item) });
  }

  private async computeDownlink(device: DeviceState, deduplicationId: string, isTimedOut: boolean): Promise<void> {
    const { discarded } = device.nextDownlink(this.now(), MAX_PAYLOAD_BYTES, isTimedOut);
    for (const discardedItem of discarded) await this.report(device, deduplicationId, discardedItem);
    this.notifyWaiters();
  }

  private async report(device: DeviceState, deduplicationId: string, { item, why }: Discarded): Promise<void> {
    const context = { queue_item_id: item.id };
    if (why === 'unacknowledged') return await this.publishAck(device, deduplicationId, item.id, false);
    if (why === 'expired')
      return await this.log(device.devEui, 'EXPIRED', {
        description: 'Device queue-item discarded because it has expired',
        context,
      });
    await this.log(device.devEui, 'DOWNLINK_PAYLOAD_SIZE', {
      description: 'Device queue-item discarded because it exceeds the max. payload size',
      context: { ...context, item_size: String(item.data.length), max_payload_size: String(MAX_PAYLOAD_BYTES) },
    });
  }

  private async publishAck(
    device: DeviceState,
    deduplicationId: string,
    queueItemId: string,
    acknowledged: boolean,
  ): Promise<void> {
    await this.publish({
      kind: 'ack',
      deduplicationId,
      time: this.now(),
      deviceInfo: this.getInfo(device),
      queueItemId,
      acknowledged,
      fCntDown: device.fCntDown,
    });
  }

  private async publish(event: Event): Promise<void> {
    if (this.held) return void this.held.push(event);
    const { applicationId, devEui } = event.deviceInfo;
    const topic = `application/${applicationId}/device/${devEui}/event/${event.kind}`;
    const payload = write(event, this.options.encoding);
    this.published.push({ topic, payload });
    await this.send(topic, payload);
  }

  /** A message that cannot be sent is lost, and only the server's own log reports it. */
  private async send(topic: string, payload: Buffer | string): Promise<void> {
    if (!this.client) return void this.errors.push(`the integration is not connected: ${topic}`);
    await this.client.publishAsync(topic, payload, { qos: this.options.qos ?? 1 });
  }

  private device(devEui: string): DeviceState {
    const device = this.devices.get(devEui);
    if (!device) throw new Error(`the stand-in has no device ${devEui}; add it`);
    return device;
  }

  private getInfo(device: DeviceState): InfoOfDevice {
    return { applicationId: this.options.applicationId, devEui: device.devEui, deviceClassEnabled: device.className };
  }

  private now(): number {
    return this.options.now?.() ?? Date.now();
  }

  private notifyWaiters(): void {
    const waiting = this.waiting;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }
}

function getAddress(url: string): Pick<IClientOptions, 'protocol' | 'host' | 'port'> {
  const { hostname, port } = new URL(url);
  return { protocol: 'mqtt', host: hostname, port: Number(port) };
}
