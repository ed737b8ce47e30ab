import { setTimeout as pause } from 'node:timers/promises';
import { connectAsync, type MqttClient } from 'mqtt';
import { type Measured, summarize } from './latencies';
import { ReadingTail } from './readingTail';
import type { UplinkSite } from './uplinkSite';

/**
 * The result of a run. Latencies are in milliseconds, from publishing until the readings stream delivers the reading.
 */
export interface UplinkResult extends Measured {
  /** CPU time of the server per uplink, of all threads, in microseconds. */
  readonly cpu: number;
}

/** The number of devices whose readings are streamed; a stream of all would be an additional load. */
const WATCHED_DEVICES = 20;
const MAX_WAIT_MS = 30_000;
const TICK_MS = 10;

/** Publishes uplinks of a site's devices, and measures when they are stored. */
export class UplinkRun {
  private readonly sentAt = new Map<number, number>();
  private latencies: number[] = [];
  private next = 1;

  private constructor(
    private readonly site: UplinkSite,
    private readonly client: MqttClient,
  ) {}

  /** Connects to the broker, and opens the readings stream. */
  static async open(site: UplinkSite, brokerUrl: string): Promise<UplinkRun & AsyncDisposable> {
    const { hostname: host, port } = new URL(brokerUrl);
    const client = await connectAsync({
      host,
      port: Number(port),
      clientId: `bench-${process.pid}`,
      protocolVersion: 4,
    });
    const run = new UplinkRun(site, client);
    const watched = site.devices.slice(0, WATCHED_DEVICES);
    const tail = await ReadingTail.open(
      site.server,
      watched.map(({ counter }) => counter),
      ({ value }) => {
        if (value?.$case === 'number') run.recordStored(value.value);
      },
    );
    const close = async (): Promise<void> => {
      tail.close();
      await client.endAsync();
    };
    return Object.assign(run, { [Symbol.asyncDispose]: close });
  }

  /** Publishes `count` uplinks as fast as the broker accepts them. */
  async burst(count: number): Promise<UplinkResult> {
    return await this.measure(count, async () => {
      for (let sent = 0; sent < count; sent += 100)
        await Promise.all(Array.from({ length: Math.min(100, count - sent) }, async () => await this.publish()));
    });
  }

  /** Publishes uplinks at a constant rate. */
  async steady(perSecond: number, milliseconds: number): Promise<UplinkResult> {
    const count = Math.round((perSecond * milliseconds) / 1000);
    return await this.measure(count, async () => {
      const began = performance.now();
      const pending: Promise<unknown>[] = [];
      while (pending.length < count) {
        const due = Math.min(count, Math.ceil(((performance.now() - began) * perSecond) / 1000));
        while (pending.length < due) pending.push(this.publish());
        await pause(TICK_MS);
      }
      await Promise.all(pending);
    });
  }

  private async measure(count: number, publish: () => Promise<void>): Promise<UplinkResult> {
    const { server } = this.site;
    this.latencies = [];
    const [cpu, began] = [server.process.cpuMilliseconds(), performance.now()];
    await publish();
    while (this.sentAt.size > 0 && performance.now() - began < MAX_WAIT_MS + count) await pause(1);
    const seconds = (performance.now() - began) / 1000;
    const { latencies } = this;
    const failed = this.sentAt.size; // watched uplinks that never arrived
    this.sentAt.clear();
    return {
      ...summarize(latencies, { calls: count, failed, seconds }),
      cpu: ((server.process.cpuMilliseconds() - cpu) * 1000) / count,
    };
  }

  private async publish(): Promise<unknown> {
    const { devices, sending } = this.site;
    const n = this.next++;
    const at = (n - 1) % devices.length;
    if (at < WATCHED_DEVICES) this.sentAt.set(n, performance.now());
    return await this.client.publishAsync(`bench/${devices[at]?.clientDeviceId}/up`, sending.payload(n), { qos: 1 });
  }

  private recordStored(n: number): void {
    const sentAt = this.sentAt.get(n);
    if (sentAt === undefined) return; // already received
    this.sentAt.delete(n);
    this.latencies.push(performance.now() - sentAt);
  }
}
