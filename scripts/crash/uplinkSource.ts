import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { connectAsync, type MqttClient } from 'mqtt';
import { write } from '../../test/support/chirpStack/wire';
import type { Transport } from './brokerPoints';
import { addReading, type ReadingTotals } from './countReadings';
import { APPLICATION_ID } from './loraNetwork';

const MAX_UNACKNOWLEDGED = 500;
const TICK_MS = 10;

/** Publishes uplinks of the devices of a plant with QoS 1. Each uplink is different and contains one reading. */
export class UplinkSource {
  /** The uplinks that the broker acknowledged. */
  accepted: ReadingTotals = { count: 0, sum: 0 };
  private sequence = 0;

  private constructor(
    private readonly client: MqttClient,
    private readonly transport: Transport,
    private readonly clientDeviceIds: readonly string[],
    private readonly padding: string,
  ) {}

  /** Connects to the broker. `bytes`: padding of each payload. */
  static async connect(
    url: string,
    transport: Transport,
    clientDeviceIds: readonly string[],
    bytes = 0,
  ): Promise<UplinkSource> {
    const { hostname, port } = new URL(url);
    const client = await connectAsync({
      protocol: 'mqtt',
      host: hostname,
      port: Number(port),
      clean: true,
      reconnectPeriod: 0,
    });
    return new UplinkSource(client, transport, clientDeviceIds, 'x'.repeat(bytes));
  }

  /** Publishes `count` uplinks; resolves when the broker has acknowledged them. */
  async publish(count: number): Promise<void> {
    for (let left = count; left > 0; left -= MAX_UNACKNOWLEDGED) {
      await Promise.all(
        Array.from({ length: Math.min(left, MAX_UNACKNOWLEDGED) }, async () => await this.publishOne()),
      );
    }
  }

  /** Publishes at a steady rate until the signal aborts; resolves when the broker has acknowledged all. */
  async run(perSecond: number, signal: AbortSignal): Promise<void> {
    const started = performance.now();
    const sending: Promise<void>[] = [];
    while (!signal.aborted) {
      const due = ((performance.now() - started) / 1000) * perSecond;
      while (sending.length < due) sending.push(this.publishOne());
      await wait(TICK_MS);
    }
    await Promise.all(sending);
  }

  /** Disconnects. */
  async disconnect(): Promise<void> {
    await this.client.endAsync(true);
  }

  private async publishOne(): Promise<void> {
    const position = (this.sequence += 1);
    const clientDeviceId = this.clientDeviceIds[position % this.clientDeviceIds.length] ?? '';
    const { topic, payload } =
      this.transport === 'chirpstack'
        ? this.createChirpStackEvent(clientDeviceId, position)
        : this.createMqttMessage(clientDeviceId, position);
    await this.client.publishAsync(topic, payload, { qos: 1 });
    this.accepted = addReading(this.accepted, position);
  }

  private createMqttMessage(clientDeviceId: string, position: number): { topic: string; payload: Buffer } {
    const padding = this.padding === '' ? {} : { padding: this.padding };
    return { topic: `plant/${clientDeviceId}/up`, payload: Buffer.from(JSON.stringify({ position, ...padding })) };
  }

  private createChirpStackEvent(devEui: string, position: number): { topic: string; payload: Buffer } {
    const deviceInfo = { applicationId: APPLICATION_ID, devEui, deviceClassEnabled: 'CLASS_A' } as const;
    const time = Date.now();
    const object = { position, ...(this.padding !== '' && { padding: this.padding }) };
    const event = {
      kind: 'up',
      deduplicationId: randomUUID(),
      time,
      nsTime: time,
      deviceInfo,
      fCnt: position,
      fPort: 1,
      data: Buffer.from('01', 'hex'),
      object,
      rssi: -57,
      snr: 9.5,
    } as const;
    return { topic: `application/${APPLICATION_ID}/device/${devEui}/event/up`, payload: write(event, 'json') };
  }
}
