import { Gateway } from './gateway';
import { type Measured, summarize } from './latencies';
import type { MeasuredGateway } from './measuredGateway';
import { openExecutor, type Site, type Valve } from './site';

/** The result of a run. Latencies are in milliseconds, from the call to the acknowledgement of the device's result. */
export interface RunResult extends Measured {
  /** CPU time of the server per execution, in microseconds. */
  readonly cpu: number;
  /** The share of the time that the server used the CPU. */
  readonly busy: number;
}

/** The options of a run. */
export interface RunOptions {
  readonly milliseconds: number;
  /** The number of concurrent executions. */
  readonly concurrency: number;
  /** Returns the next position; executions with equal parameters in progress would be duplicates. */
  readonly position: () => number;
  /** Attaches the gateway that accepts every command immediately; default: a minimal gateway. */
  readonly attach?: (acknowledged: (executionId: string, applied: boolean) => void) => Promise<Attached>;
}

type Attached = Pick<MeasuredGateway, 'lost' | 'detach'>;

/** Collects the ends of executions, also of those that nobody awaits yet. */
class ExecutionEnds {
  private readonly waiting = new Map<string, (applied: boolean) => void>();
  private readonly early = new Map<string, boolean>();

  record(executionId: string, applied: boolean): void {
    const resolve = this.waiting.get(executionId);
    this.waiting.delete(executionId);
    if (resolve) resolve(applied);
    else this.early.set(executionId, applied);
  }

  async waitFor(executionId: string): Promise<boolean> {
    const known = this.early.get(executionId);
    this.early.delete(executionId);
    return known ?? (await new Promise<boolean>((resolve) => this.waiting.set(executionId, resolve)));
  }
}

/** Attaches a minimal gateway, which leaves the CPU time to the server. */
async function attachMinimal(
  site: Site,
  acknowledged: (executionId: string, applied: boolean) => void,
): Promise<Attached> {
  const loss = Promise.withResolvers<never>();
  loss.promise.catch(() => {}); // reported to whoever awaits it
  const gateway = await Gateway.attach(site.server, site.key, site.connectionId, {
    command: ({ executionId }) => {
      gateway.confirmCommand(executionId);
      gateway.acceptCommand(executionId);
    },
    acknowledged,
    ended: (reason) => loss.reject(new Error(`the stream of the gateway ended: ${reason}`)),
  });
  return { lost: loss.promise, detach: async () => await gateway.detach() };
}

/**
 * Runs executions from the call to their end. One gateway accepts every command immediately; each of the concurrent
 * callers executes a command on the next valve, waits for its end, and repeats.
 */
export async function runExecutions(
  site: Site,
  { milliseconds, concurrency, position, attach }: RunOptions,
): Promise<RunResult> {
  const executionEnds = new ExecutionEnds();
  const acknowledged = (executionId: string, applied: boolean): void => executionEnds.record(executionId, applied);
  const gateway = attach ? await attach(acknowledged) : await attachMinimal(site, acknowledged);
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
      if (!(await executionEnds.waitFor(executionId))) failed += 1;
      latencies.push(performance.now() - since);
    }
  };
  await Promise.race([Promise.all(Array.from({ length: concurrency }, caller)), gateway.lost]);
  const elapsed = performance.now() - started;
  const cpu = site.server.process.cpuMilliseconds() - before;
  await gateway.detach();
  for (const executor of executors) executor.close();
  const calls = latencies.length;
  return {
    ...summarize(latencies, { calls, failed, seconds: elapsed / 1000 }),
    cpu: (cpu * 1000) / calls,
    busy: cpu / elapsed,
  };
}
