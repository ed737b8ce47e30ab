import { setTimeout as pause } from 'node:timers/promises';
import type { PlantroomServer } from '../bench/plantroomServer';
import type { Finding, Point } from './analysis';
import { GrpcClient } from './grpcClient';
import type { RunResult } from './judge';
import { LiveHeap } from './liveHeap';
import { checkExecutions, checkUplinks } from './dataLoss';
import type { SoakOptions } from './options';
import { Pacer } from './pacer';
import { findDebuggerUrl, readErrorLines, Probe, type Sample } from './probe';
import { Random } from './random';
import { ProgressLine } from './report';
import { SoakSite } from './site';
import { STANDARD_LOAD, type Rates } from './standardLoad';
import { listWorks } from './workList';

const POLL_INTERVAL_MS = 1000;
const HEAP_INTERVAL_MS = 5000;
const MAX_SETTLE_MS = 15_000;
const IDLE_POLL_INTERVAL_MS = 500;
/** How often each work is done before the measured load, so that everything that is created on first use exists. */
const WARM_UP_ROUNDS = 3;

/** Runs the load on one server and measures it. */
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

  /** Creates the site, runs the load, and checks that everything that was acknowledged is stored. */
  static async execute(
    server: PlantroomServer,
    brokerUrl: string,
    options: SoakOptions,
  ): Promise<{ readonly result: RunResult; readonly lost: readonly Finding[] }> {
    const random = new Random(options.seed);
    const site = await SoakSite.create(server, brokerUrl, random);
    const url = findDebuggerUrl(server);
    const heap = url === undefined ? undefined : await LiveHeap.open(url);
    const grpc = await GrpcClient.open(server);
    const run = new Run(site, grpc, new Probe(server), heap, options);
    const result = await run.runLoad(random);
    const lost = [await checkExecutions(site, grpc), await checkUplinks(site, grpc)];
    grpc.close();
    heap?.close();
    await site.close();
    return { result: { ...result, errors: readErrorLines(server) }, lost };
  }

  private async runLoad(random: Random): Promise<RunResult> {
    const { seconds, share } = this.options;
    const rates = Object.fromEntries(
      Object.entries(STANDARD_LOAD).map(([name, rate]: [string, number]) => [name, rate * share]),
    ) as unknown as Rates;
    const works = listWorks(this.site, this.grpc, rates, random);
    for (let n = 0; n < WARM_UP_ROUNDS; n += 1) await Promise.all(works.map(async ({ run }) => await run()));
    const before = await this.sampleWhenIdle(undefined);
    const pacer = new Pacer(random);
    const began = performance.now();
    this.probe.begin();
    pacer.start(works);
    await Promise.all([this.sampleUntil(began + seconds * 1000, pacer), this.sampleHeapUntil(began + seconds * 1000)]);
    await pacer.stop();
    return {
      samples: this.samples,
      live: this.live,
      buffers: this.buffers,
      before,
      after: await this.sampleWhenIdle(before),
      counters: pacer.counters,
      errors: [],
    };
  }

  private async sampleUntil(until: number, pacer: Pacer): Promise<void> {
    const progressLine = new ProgressLine(this.options.seconds);
    for (let next = performance.now(); next < until; next += POLL_INTERVAL_MS) {
      this.samples.push(await this.probe.sample());
      progressLine.show(this.samples, pacer);
      await pause(Math.max(0, next + POLL_INTERVAL_MS - performance.now()));
    }
    progressLine.clear();
  }

  private async sampleHeapUntil(until: number): Promise<void> {
    while (this.heap && performance.now() + HEAP_INTERVAL_MS < until) {
      await pause(HEAP_INTERVAL_MS);
      const { live, buffers } = await this.heap.measure();
      const at = this.samples.at(-1)?.at ?? 0;
      this.live.push({ at, value: live });
      this.buffers.push({ at, value: buffers });
    }
  }

  /**
   * Takes a sample when the server is idle: when it uses no more descriptors and threads than `before`, or, without
   * `before`, when the number of descriptors no longer falls.
   */
  private async sampleWhenIdle(before: Sample | undefined): Promise<Sample> {
    const began = performance.now();
    let last = await this.probe.sample();
    for (;;) {
      await pause(IDLE_POLL_INTERVAL_MS);
      const now = await this.probe.sample();
      const isIdle = before
        ? now.descriptors <= before.descriptors && now.threads <= before.threads
        : now.descriptors >= last.descriptors;
      if (isIdle || performance.now() - began > MAX_SETTLE_MS) return now;
      last = now;
    }
  }
}
