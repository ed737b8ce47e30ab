import { randomInt } from 'node:crypto';
import { connectAsync, type IClientOptions, type MqttClient } from 'mqtt';
import { addReading, type ReadingTotals } from './countReadings';
import type { World } from './world';

const MAX_DELAY_MS = 15;

interface CommandPayload {
  readonly id: string;
}

/** Devices on a broker. They carry out a command each time they receive it, so that a repeated command is detected. */
export class MqttFleet {
  /** The uplinks that the broker accepted. */
  accepted: ReadingTotals = { count: 0, sum: 0 };
  private readonly sequences = new Map<string, number>();
  private client: MqttClient | undefined;

  constructor(
    private readonly url: string,
    private readonly world: World,
  ) {}

  /** Connects with a clean session, so that every message they receive was just sent by the server. */
  async start(): Promise<void> {
    const client = await connectAsync({ ...getAddress(this.url), clean: true, reconnectPeriod: 0 });
    client.on('error', () => {}); // the broker was killed
    client.on('message', (topic, payload) =>
      this.handleCommand(topic.split('/')[1] ?? '', JSON.parse(payload.toString()) as CommandPayload),
    );
    await client.subscribeAsync('plant/+/command', { qos: 1 });
    this.client = client;
  }

  /** Disconnects from the broker. */
  stop(): void {
    this.client?.end(true);
    this.client = undefined;
  }

  private handleCommand(clientDeviceId: string, payload: CommandPayload): void {
    this.world.carryOut({ executionId: payload.id, clientDeviceId, payload });
    setTimeout(
      () => {
        void this.publish(`plant/${clientDeviceId}/answer`, { id: payload.id, status: 'ok' });
        void this.publishPosition(clientDeviceId);
      },
      1 + randomInt(MAX_DELAY_MS),
    );
  }

  private async publishPosition(clientDeviceId: string): Promise<void> {
    const sequence = (this.sequences.get(clientDeviceId) ?? 0) + 1;
    this.sequences.set(clientDeviceId, sequence);
    const position = this.world.positions.get(clientDeviceId) ?? 0;
    if (await this.publish(`plant/${clientDeviceId}/up`, { position, sequence }))
      this.accepted = addReading(this.accepted, position);
  }

  /** Publishes a message. Returns whether the broker accepted it. */
  private async publish(topic: string, payload: object): Promise<boolean> {
    try {
      await this.client?.publishAsync(topic, JSON.stringify(payload), { qos: 1 });
      return this.client !== undefined;
    } catch {
      return false; // the broker was killed
    }
  }
}

function getAddress(url: string): Pick<IClientOptions, 'protocol' | 'host' | 'port'> {
  const { hostname, port } = new URL(url);
  return { protocol: 'mqtt', host: hostname, port: Number(port) };
}
