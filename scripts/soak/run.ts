import { setTimeout as pause } from 'node:timers/promises';
import type { PlantroomServer } from '../bench/plantroomServer';
import type { Finding, Point } from './analysis';
import { GrpcClient } from './grpcClient';
import type { Seen } from './judge';
import { LiveHeap } from './liveHeap';
import { executionsEnded, uplinksStored } from './nothingLost';
import type { SoakOptions } from './options';
import { Pacer } from './pacer';
import { debuggerUrl, errorLines, Probe, type Sample } from './probe';
import { Random } from './random';
import { Live } from './report';
import { SoakSite } from './site';
import { STANDARD_LOAD, type Rates } from './standardLoad';
import { worksOf } from './works';

const LOOK_MS = 1000;
const LIVE_EVERY_MS = 5000;
const LONGEST_CALM_MS = 15_000;
const CALM_LOOK_MS = 500;
/** How often each work is done before the measured load: what is made when it is first needed is there then. */
const WARM = 3;

/** The load on one server, and what was seen of it. */
export class Run {
  private readonly samples: Sample[] = [];
  private readonly live: Point[] = [];
  private readonly buffers: Point[] = [];

  private constructor(
    private readonly site: SoakSite,
    private readonly grpc: GrpcClient,
    private readonly probe: Probe,
    private readonly heap: LiveHeap | undefined,
    private readonly options: SoakOptions,
  ) {}

  /** Makes the site, has it under load for the time, and looks for what was acknowledged. */
  static async whole(server: PlantroomServer, brokerUrl: string, options: SoakOptions): Promise<{ readonly seen: Seen; readonly lost: readonly Finding[] }> {
    const random = new Random(options.seed);
    const site = await SoakSite.make(server, brokerUrl, random);
    const url = debuggerUrl(server);
    const heap = url === undefined ? undefined : await LiveHeap.open(url);
    const grpc = await GrpcClient.open(server);
    const run = new Run(site, grpc, new Probe(server), heap, options);
    const seen = await run.loaded(random);
    const lost = [await executionsEnded(site, grpc), await uplinksStored(site, grpc)];
    grpc.close();
    heap?.close();
    await site.close();
    return { seen: { ...seen, errors: errorLines(server) }, lost };
  }

  private async loaded(random: Random): Promise<Seen> {
    const { seconds, share } = this.options;
    const rates = Object.fromEntries(Object.entries(STANDARD_LOAD).map(([name, rate]: [string, number]) => [name, rate * share])) as unknown as Rates;
    const works = worksOf(this.site, this.grpc, rates, random);
    for (let n = 0; n < WARM; n += 1) await Promise.all(works.map(async ({ once }) => await once()));
    const before = await this.calm(undefined);
    const pacer = new Pacer(random);
    const began = performance.now();
    this.probe.begin();
    pacer.start(works);
    await Promise.all([this.watch(began + seconds * 1000, pacer), this.watchHeap(began + seconds * 1000)]);
    await pacer.stop();
    return { samples: this.samples, live: this.live, buffers: this.buffers, before, after: await this.calm(before), tallies: pacer.tallies, errors: [] };
  }

  private async watch(until: number, pacer: Pacer): Promise<void> {
    const live = new Live(this.options.seconds);
    for (let next = performance.now(); next < until; next += LOOK_MS) {
      this.samples.push(await this.probe.look());
      live.show(this.samples, pacer);
      await pause(Math.max(0, next + LOOK_MS - performance.now()));
    }
    live.clear();
  }

  private async watchHeap(until: number): Promise<void> {
    while (this.heap && performance.now() + LIVE_EVERY_MS < until) {
      await pause(LIVE_EVERY_MS);
      const { live, buffers } = await this.heap.held();
      const at = this.samples.at(-1)?.at ?? 0;
      this.live.push({ at, value: live });
      this.buffers.push({ at, value: buffers });
    }
  }

  /** Looks when nothing is under way any more: when it takes no more than before, or when nothing becomes less. */
  private async calm(before: Sample | undefined): Promise<Sample> {
    const began = performance.now();
    let last = await this.probe.look();
    for (;;) {
      await pause(CALM_LOOK_MS);
      const now = await this.probe.look();
      const isCalm = before ? now.descriptors <= before.descriptors && now.threads <= before.threads : now.descriptors >= last.descriptors;
      if (isCalm || performance.now() - began > LONGEST_CALM_MS) return now;
      last = now;
    }
  }
}
