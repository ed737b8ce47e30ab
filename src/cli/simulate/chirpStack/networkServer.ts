import type { BrokerTarget } from '../broker/brokerFlags';
import { SimulatedBrokerConnection, type SimulatedMessage } from '../broker/simulatedBrokerConnection';
import type { OnSimulatedEvent } from '../simulation';
import { parseQueueItem } from './downlinkQueue';
import type { NetworkEvent } from './eventMessages';
import type { LorawanDevice } from './lorawanDevices';
import { NetworkDevice, type DeviceOptions } from './networkDevice';

/** The options of the simulated network server. All times are milliseconds. */
export interface NetworkServerOptions extends DeviceOptions {
  readonly broker: BrokerTarget;
  readonly devices: readonly LorawanDevice[];
  /** Between two uplinks of a device; 0: only after a downlink, and once at the start. */
  readonly uplinkIntervalMs: number;
  /** How often the devices rejoin; undefined: they only join at the start. */
  readonly joinEveryMs: number | undefined;
}

/**
 * Simulates a ChirpStack v4 with its devices on a broker until `signal` aborts. Rejects with `connection_refused` if
 * the broker rejects the connection permanently.
 */
export async function runNetworkServer(
  options: NetworkServerOptions,
  signal: AbortSignal,
  onEvent: OnSimulatedEvent,
): Promise<void> {
  const server = new NetworkServer(options, onEvent);
  try {
    await server.run(signal);
  } finally {
    server.close();
  }
}

/** The maximum of a Node.js timer, 25 days: practically never. Used if the interval of uplinks is 0. */
const MAX_TIMER_MS = 2 ** 31 - 1;

class NetworkServer {
  private readonly link: SimulatedBrokerConnection;
  private readonly devices: ReadonlyMap<string, NetworkDevice>;
  private readonly timers: NodeJS.Timeout[] = [];

  constructor(
    private readonly options: NetworkServerOptions,
    private readonly onEvent: OnSimulatedEvent,
  ) {
    const hooks = {
      publish: (device: LorawanDevice, event: NetworkEvent) => this.publish(device, event),
      report: (event: string, fields: Readonly<Record<string, unknown>>) => this.report(event, fields),
    };
    this.devices = new Map(options.devices.map((device) => [device.devEui, new NetworkDevice(device, options, hooks)]));
    const filters = [`application/${options.applicationId}/device/+/command/down`];
    this.link = new SimulatedBrokerConnection(
      options.broker,
      { filters, onMessage: (message) => this.handleCommand(message), onConnected: () => this.start() },
      onEvent,
    );
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.link.run(signal);
  }

  close(): void {
    for (const timer of this.timers) clearInterval(timer);
    for (const device of this.devices.values()) device.stop();
  }

  /** Starts the devices, only once: they continue while the link is down. */
  private start(): void {
    if (this.timers.length > 0) return;
    const { uplinkIntervalMs, joinEveryMs } = this.options;
    for (const device of this.devices.values()) {
      device.join();
      device.sendUplink();
      this.timers.push(setInterval(() => device.sendUplink(), uplinkIntervalMs || MAX_TIMER_MS));
      if (joinEveryMs !== undefined) this.timers.push(setInterval(() => device.join(), joinEveryMs));
    }
  }

  /** Queues a downlink that Plantroom sent; reports it if it is invalid. */
  private handleCommand({ topic, payload }: SimulatedMessage): void {
    const devEui = topic.split('/').at(-3) ?? ''; // application/<id>/device/<DevEUI>/command/down
    const device = this.devices.get(devEui);
    const itemOrReason = device ? parseQueueItem(payload, devEui) : 'unknown device';
    if (typeof itemOrReason === 'string' || !device)
      return this.report('queue.refused', { topic, message: itemOrReason });
    device.enqueue(itemOrReason);
  }

  /** Publishes an event of a device; reports it as dropped if the broker is not connected. */
  private publish({ devEui }: LorawanDevice, { kind, body }: NetworkEvent): void {
    const isSent = this.link.publish(
      `application/${this.options.applicationId}/device/${devEui}/event/${kind}`,
      JSON.stringify(body),
    );
    if (!isSent) this.report('event.dropped', { device: devEui, kind });
  }

  private report(event: string, fields: Readonly<Record<string, unknown>>): void {
    this.onEvent({ event, time: Date.now(), fields });
  }
}
