import { Gateway } from './gateway';
import type { MeasuredGateway } from './measuredGateway';
import { quantile } from './measure';
import { openExecutor, type Site, type Valve } from './site';

/** What came of a run. Latencies are in milliseconds, from the call to the acknowledgement of the device's answer. */
export interface RunResult {
  readonly calls: number;
  readonly failed: number;
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  /** CPU time of the server per execution, in microseconds. */
  readonly cpu: number;
  /** Which part of the time the server was computing. */
  readonly busy: number;
}

/** How to run. */
export interface RunOptions {
  readonly milliseconds: number;
  /** Executions under way at once. */
  readonly concurrency: number;
  /** Positions are counted from here: an execution like one under way would be a duplicate. */
  readonly position: () => number;
  /** The gateway that takes every command and has it done at once; a lean one where none is given. */
  readonly attach?: (acknowledged: (executionId: string, applied: boolean) => void) => Promise<Attached>;
}

type Attached = Pick<MeasuredGateway, 'lost' | 'detach'>;

/** Which executions have ended, whether somebody waits for them already or not. */
class Endings {
  private readonly waiting = new Map<string, (applied: boolean) => void>();
  private readonly early = new Map<string, boolean>();

  ended(executionId: string, applied: boolean): void {
    const tell = this.waiting.get(executionId);
    this.waiting.delete(executionId);
    if (tell) tell(applied);
    else this.early.set(executionId, applied);
  }

  async of(executionId: string): Promise<boolean> {
    const known = this.early.get(executionId);
    this.early.delete(executionId);
    return known ?? (await new Promise<boolean>((resolve) => this.waiting.set(executionId, resolve)));
  }
}

/** The machine's time goes to the server. */
async function attachLean(site: Site, acknowledged: (executionId: string, applied: boolean) => void): Promise<Attached> {
  const loss = Promise.withResolvers<never>();
  loss.promise.catch(() => {}); // whoever waits for it is told
  const gateway = await Gateway.attach(site.server, site.key, site.connectionId, {
    command: ({ executionId }) => {
      gateway.received(executionId);
      gateway.accepted(executionId);
    },
    acknowledged,
    ended: (said) => loss.reject(new Error(`the stream of the gateway ended: ${said}`)),
  });
  return { lost: loss.promise, detach: async () => await gateway.detach() };
}

/**
 * Executions from the call to their end: one gateway is attached that takes every command and has it done at once, and so many
 * callers each execute, wait for the end, and execute again, each in its turn on the next valve.
 */
export async function runExecutions(site: Site, { milliseconds, concurrency, position, attach }: RunOptions): Promise<RunResult> {
  const endings = new Endings();
  const acknowledged = (executionId: string, applied: boolean): void => endings.ended(executionId, applied);
  const gateway = attach ? await attach(acknowledged) : await attachLean(site, acknowledged);
  const executors = await Promise.all([openExecutor(site), openExecutor(site)]);
  const latencies: number[] = [];
  let failed = 0;
  let turn = 0;
  const before = site.server.process.cpuMilliseconds();
  const started = performance.now();
  const caller = async (_: unknown, at: number): Promise<void> => {
    while (performance.now() < started + milliseconds) {
      const valve = site.valves[turn++ % site.valves.length] as Valve;
      const since = performance.now();
      const executionId = await (executors[at % 2] as (typeof executors)[0]).execute(valve, position());
      if (!(await endings.of(executionId))) failed += 1;
      latencies.push(performance.now() - since);
    }
  };
  await Promise.race([Promise.all(Array.from({ length: concurrency }, caller)), gateway.lost]);
  const elapsed = performance.now() - started;
  const cpu = site.server.process.cpuMilliseconds() - before;
  await gateway.detach();
  for (const executor of executors) executor.close();
  const calls = latencies.length;
  return { calls, failed, perSecond: (calls * 1000) / elapsed, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99), cpu: (cpu * 1000) / calls, busy: cpu / elapsed };
}
