import { setTimeout as pause } from 'node:timers/promises';
import { connectAsync, type MqttClient } from 'mqtt';
import { quantile } from './measure';
import { ReadingTail } from './readingTail';
import type { UplinkSite } from './uplinkSite';

/** What came of a run. Latencies are in milliseconds, from the publish until a reader of the stream has the reading. */
export interface UplinkResult {
  readonly calls: number;
  readonly failed: number;
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  /** CPU time of the server per uplink, all its threads, in microseconds. */
  readonly cpu: number;
}

/** Of so many devices the readings are watched: a stream of all would be a load of its own. */
const WATCHED = 20;
const PATIENCE_MS = 30_000;
const TICK_MS = 10;

/** Publishes uplinks of a site's devices, and sees when they are stored. */
export class UplinkRun {
  private readonly sentAt = new Map<number, number>();
  private latencies: number[] = [];
  private next = 1;

  private constructor(
    private readonly site: UplinkSite,
    private readonly client: MqttClient,
  ) {}

  /** Connects to the broker, and reads along. */
  static async open(site: UplinkSite, brokerUrl: string): Promise<UplinkRun & AsyncDisposable> {
    const { hostname: host, port } = new URL(brokerUrl);
    const client = await connectAsync({ host, port: Number(port), clientId: `bench-${process.pid}`, protocolVersion: 4 });
    const run = new UplinkRun(site, client);
    const watched = site.devices.slice(0, WATCHED);
    const tail = await ReadingTail.open(site.server, watched.map(({ counter }) => counter), ({ value }) => {
      if (value?.$case === 'number') run.stored(value.value);
    });
    const close = async (): Promise<void> => {
      tail.close();
      await client.endAsync();
    };
    return Object.assign(run, { [Symbol.asyncDispose]: close });
  }

  /** So many as fast as the broker takes them. */
  async burst(count: number): Promise<UplinkResult> {
    return await this.measured(count, async () => {
      for (let sent = 0; sent < count; sent += 100) await Promise.all(Array.from({ length: Math.min(100, count - sent) }, async () => await this.publish()));
    });
  }

  /** So many each second, for so long. */
  async steady(perSecond: number, milliseconds: number): Promise<UplinkResult> {
    const count = Math.round((perSecond * milliseconds) / 1000);
    return await this.measured(count, async () => {
      const began = performance.now();
      const under: Promise<unknown>[] = [];
      while (under.length < count) {
        const due = Math.min(count, Math.ceil(((performance.now() - began) * perSecond) / 1000));
        while (under.length < due) under.push(this.publish());
        await pause(TICK_MS);
      }
      await Promise.all(under);
    });
  }

  private async measured(count: number, publish: () => Promise<void>): Promise<UplinkResult> {
    const { server } = this.site;
    this.latencies = [];
    const [cpu, began] = [server.process.cpuMilliseconds(), performance.now()];
    await publish();
    while (this.sentAt.size > 0 && performance.now() - began < PATIENCE_MS + count) await pause(1);
    const seconds = (performance.now() - began) / 1000;
    const { latencies } = this;
    const failed = this.sentAt.size; // of the watched ones: each has to come, not only the last one
    this.sentAt.clear();
    return { calls: count, failed, perSecond: count / seconds, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99), cpu: ((server.process.cpuMilliseconds() - cpu) * 1000) / count };
  }

  private async publish(): Promise<unknown> {
    const { devices, sending } = this.site;
    const n = this.next++;
    const at = (n - 1) % devices.length;
    if (at < WATCHED) this.sentAt.set(n, performance.now());
    return await this.client.publishAsync(`bench/${devices[at]?.clientDeviceId}/up`, sending.payload(n), { qos: 1 });
  }

  private stored(n: number): void {
    const sentAt = this.sentAt.get(n);
    if (sentAt === undefined) return; // it comes twice
    this.sentAt.delete(n);
    this.latencies.push(performance.now() - sentAt);
  }
}
