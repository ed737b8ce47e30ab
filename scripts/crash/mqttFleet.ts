import { randomInt } from 'node:crypto';
import { connectAsync, type IClientOptions, type MqttClient } from 'mqtt';
import type { World } from './world';

const SLOWEST_MS = 15;

interface Told {
  readonly id: string;
}

/** Devices on a broker. They do what they are told each time they are told it, with no look at what they did before: that must not happen. */
export class MqttFleet {
  /** Uplinks that the broker took. */
  published = 0;
  private readonly sent = new Map<string, number>();
  private client: MqttClient | undefined;

  constructor(
    private readonly url: string,
    private readonly world: World,
  ) {}

  /** Connects, without a session: what the broker kept for them is gone, so whatever comes was sent by the server. */
  async start(): Promise<void> {
    const client = await connectAsync({ ...addressOf(this.url), clean: true, reconnectPeriod: 0 });
    client.on('error', () => {}); // the broker was killed
    client.on('message', (topic, payload) => this.told(topic.split('/')[1] ?? '', JSON.parse(payload.toString()) as Told));
    await client.subscribeAsync('plant/+/command', { qos: 1 });
    this.client = client;
  }

  /** The broker is gone, or all is over. */
  stop(): void {
    this.client?.end(true);
    this.client = undefined;
  }

  private told(clientDeviceId: string, payload: Told): void {
    this.world.carryOut({ executionId: payload.id, clientDeviceId, payload });
    setTimeout(() => {
      void this.publish(`plant/${clientDeviceId}/answer`, { id: payload.id, status: 'ok' });
      void this.show(clientDeviceId);
    }, 1 + randomInt(SLOWEST_MS));
  }

  private async show(clientDeviceId: string): Promise<void> {
    const sequence = (this.sent.get(clientDeviceId) ?? 0) + 1;
    this.sent.set(clientDeviceId, sequence);
    if (await this.publish(`plant/${clientDeviceId}/up`, { position: this.world.positions.get(clientDeviceId) ?? 0, sequence })) this.published += 1;
  }

  /** Whether the broker took it. */
  private async publish(topic: string, payload: object): Promise<boolean> {
    try {
      await this.client?.publishAsync(topic, JSON.stringify(payload), { qos: 1 });
      return this.client !== undefined;
    } catch {
      return false; // the broker was killed
    }
  }
}

function addressOf(url: string): Pick<IClientOptions, 'protocol' | 'host' | 'port'> {
  const { hostname, port } = new URL(url);
  return { protocol: 'mqtt', host: hostname, port: Number(port) };
}
