import type { ClientHttp2Session } from 'node:http2';
import { setTimeout as pause } from 'node:timers/promises';
import { call, frame, type Load, type Measured, open } from './load';
import { quantile } from './measure';

/** What came of calls at a pace. Latencies are in milliseconds. */
export interface Paced extends Measured {
  readonly slowest: number;
}

/**
 * Calls a method so many times a second, whether earlier calls were answered or not: who waits for an answer before the next call does not
 * see how long others would have waited.
 */
export class Pace {
  private readonly latencies: number[] = [];
  private failed = 0;
  private isOver = false;

  private constructor(
    private readonly session: ClientHttp2Session,
    private readonly load: Omit<Load, 'concurrency'>,
  ) {}

  /** Connects, and begins. */
  static async start(load: Omit<Load, 'concurrency'>, perSecond: number): Promise<{ stop: () => Promise<Paced> }> {
    const pace = new Pace(await open(load), load);
    const began = performance.now();
    const running = pace.run(began, 1000 / perSecond);
    const stop = async (): Promise<Paced> => {
      pace.isOver = true;
      await running;
      pace.session.close();
      return pace.result((performance.now() - began) / 1000);
    };
    return { stop };
  }

  private async run(began: number, everyMs: number): Promise<void> {
    const under: Promise<void>[] = [];
    while (!this.isOver) {
      under.push(this.one(under.length));
      await pause(Math.max(0, began + under.length * everyMs - performance.now()));
    }
    await Promise.all(under);
  }

  private async one(n: number): Promise<void> {
    const before = performance.now();
    if (!(await call(this.session, this.load, frame(this.load.message(n))))) this.failed += 1;
    this.latencies.push(performance.now() - before);
  }

  private result(seconds: number): Paced {
    const { latencies, failed } = this;
    return { calls: latencies.length, failed, perSecond: latencies.length / seconds, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99), slowest: Math.max(...latencies) };
  }
}
