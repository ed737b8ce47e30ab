import type { BrokerTarget } from '../broker/brokerFlags';
import { PlayedLink, type LinkTimes, type PlayedMessage } from '../broker/playedLink';
import type { OnPlayed } from '../playing';
import { queueItemOf } from './downlinkQueue';
import type { NetworkEvent } from './eventMessages';
import type { LorawanDevice } from './lorawanDevices';
import { NetworkDevice, type DeviceOptions } from './networkDevice';

/** What the network server plays. All times are milliseconds. */
export interface NetworkServerOptions extends DeviceOptions {
  readonly broker: BrokerTarget;
  readonly devices: readonly LorawanDevice[];
  /** Between two uplinks of a device; 0: only after a downlink, and once at the start. */
  readonly uplinkIntervalMs: number;
  /** How often the devices join anew; undefined: only once, at the start. */
  readonly joinEveryMs: number | undefined;
  readonly times?: LinkTimes;
}

/** Plays a ChirpStack v4 with its devices on a broker, until `signal` aborts. Rejects with `simulator_refused` when the broker will never let it in. */
export async function runNetworkServer(options: NetworkServerOptions, signal: AbortSignal, onEvent: OnPlayed): Promise<void> {
  const server = new NetworkServer(options, onEvent);
  try {
    await server.run(signal);
  } finally {
    server.close();
  }
}

class NetworkServer {
  private readonly link: PlayedLink;
  private readonly devices: ReadonlyMap<string, NetworkDevice>;
  private readonly timers: NodeJS.Timeout[] = [];

  constructor(
    private readonly options: NetworkServerOptions,
    private readonly onEvent: OnPlayed,
  ) {
    const hooks = { publish: (device: LorawanDevice, event: NetworkEvent) => this.publish(device, event), report: (event: string, fields: Readonly<Record<string, unknown>>) => this.report(event, fields) };
    this.devices = new Map(options.devices.map((device) => [device.devEui, new NetworkDevice(device, options, hooks)]));
    const filters = [`application/${options.applicationId}/device/+/command/down`];
    this.link = new PlayedLink(options.broker, { filters, message: (message) => this.take(message), up: () => this.start() }, onEvent, options.times);
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.link.run(signal);
  }

  close(): void {
    for (const timer of this.timers) clearInterval(timer);
    for (const device of this.devices.values()) device.stop();
  }

  /** Once: what the devices did while the link was away has gone by. */
  private start(): void {
    if (this.timers.length > 0) return;
    const { uplinkIntervalMs, joinEveryMs } = this.options;
    for (const device of this.devices.values()) {
      device.join();
      device.uplink();
      this.timers.push(setInterval(() => device.uplink(), uplinkIntervalMs || 2 ** 31 - 1));
      if (joinEveryMs !== undefined) this.timers.push(setInterval(() => device.join(), joinEveryMs));
    }
  }

  private take({ topic, payload }: PlayedMessage): void {
    const devEui = topic.split('/').at(-3) ?? '';
    const device = this.devices.get(devEui);
    const item = device ? queueItemOf(payload, devEui) : 'there is no such device';
    if (typeof item === 'string' || !device) return this.report('queue.refused', { topic, message: item });
    device.enqueue(item);
  }

  private publish({ devEui }: LorawanDevice, { kind, body }: NetworkEvent): void {
    const isSent = this.link.publish(`application/${this.options.applicationId}/device/${devEui}/event/${kind}`, JSON.stringify(body));
    if (!isSent) this.report('event.dropped', { device: devEui, kind });
  }

  private report(event: string, fields: Readonly<Record<string, unknown>>): void {
    this.onEvent({ event, time: Date.now(), fields });
  }
}
