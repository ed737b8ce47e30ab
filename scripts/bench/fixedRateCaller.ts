import type { ClientHttp2Session } from 'node:http2';
import { setTimeout as pause } from 'node:timers/promises';
import { type Measured, summarize } from './latencies';
import { call, frame, type Load, openSession } from './load';

/** The result of calls at a fixed rate. Latencies are in milliseconds. */
export interface FixedRateResult extends Measured {
  readonly slowest: number;
}

/**
 * Calls a method at a fixed rate, without waiting for earlier responses. A client that waits for each response would not
 * measure how long others would have waited (coordinated omission).
 */
export class FixedRateCaller {
  private readonly latencies: number[] = [];
  private failed = 0;
  private isOver = false;

  private constructor(
    private readonly session: ClientHttp2Session,
    private readonly load: Omit<Load, 'concurrency'>,
  ) {}

  /** Connects and starts calling. */
  static async start(
    load: Omit<Load, 'concurrency'>,
    perSecond: number,
  ): Promise<{ stop: () => Promise<FixedRateResult> }> {
    const pace = new FixedRateCaller(await openSession(load), load);
    const began = performance.now();
    const running = pace.run(began, 1000 / perSecond);
    const stop = async (): Promise<FixedRateResult> => {
      pace.isOver = true;
      await running;
      pace.session.close();
      return pace.result((performance.now() - began) / 1000);
    };
    return { stop };
  }

  private async run(began: number, everyMs: number): Promise<void> {
    const pending: Promise<void>[] = [];
    while (!this.isOver) {
      pending.push(this.callOnce(pending.length));
      await pause(Math.max(0, began + pending.length * everyMs - performance.now()));
    }
    await Promise.all(pending);
  }

  private async callOnce(n: number): Promise<void> {
    const before = performance.now();
    if (!(await call(this.session, this.load, frame(this.load.message(n))))) this.failed += 1;
    this.latencies.push(performance.now() - before);
  }

  private result(seconds: number): FixedRateResult {
    const { latencies, failed } = this;
    return { ...summarize(latencies, { calls: latencies.length, failed, seconds }), slowest: Math.max(...latencies) };
  }
}
