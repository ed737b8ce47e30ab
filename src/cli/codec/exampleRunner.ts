import type { DecodeResult, EncodeResult, Sandbox } from '../../codec';
import { findDecoderDifference, findEncoderDifference } from './difference';
import type { DecoderExample, EncoderExample, Example } from './example';

/** The outcome of an example. */
export interface Outcome {
  /** `skipped`: the example has no expected result. */
  readonly result: 'passed' | 'failed' | 'skipped';
  /** The first difference, or the reason to skip; empty if the example passed. */
  readonly why: string;
  /** Run time of the script in milliseconds; null if it did not run. */
  readonly timeMs: number | null;
}

// A script that always reaches a limit would take a second per example.
const MAX_OVERRUNS = 3;
const OVERRUN_CODES: readonly unknown[] = ['timeout', 'out_of_memory'];

/** Runs examples in a sandbox. Stops running a script that exceeded its time or memory limit three times. */
export class ExampleRunner {
  private readonly overrunsByScriptId = new Map<string, number>();

  constructor(private readonly sandbox: Sandbox) {}

  /** Runs one example. `scriptId` identifies the script, also for the sandbox. */
  async run(scriptId: string, script: string, example: Example): Promise<Outcome> {
    if ('result' in example) return { result: example.result, why: example.reason, timeMs: null };
    const overruns = this.overrunsByScriptId.get(scriptId) ?? 0;
    if (overruns >= MAX_OVERRUNS)
      return {
        result: 'failed',
        why: `not run: the script exceeded its time or memory limit ${overruns} times`,
        timeMs: null,
      };
    const { difference, run } =
      example.role === 'encoder'
        ? await this.encode(scriptId, script, example)
        : await this.decode(scriptId, script, example);
    if (OVERRUN_CODES.includes(run.error?.code))
      this.overrunsByScriptId.set(scriptId, (this.overrunsByScriptId.get(scriptId) ?? 0) + 1);
    return {
      result: difference === undefined ? 'passed' : 'failed',
      why: difference ?? '',
      timeMs: run.executionTimeMs,
    };
  }

  private async encode(scriptId: string, script: string, example: EncoderExample): Promise<Comparison> {
    const {
      input: { data, fPort, variables = {} },
      extraInput,
    } = example;
    const run = await retryIfServerFault(
      async () => await this.sandbox.encode({ owner: scriptId, script, data, fPort, variables, extraInput }),
    );
    return { run, difference: findEncoderDifference(example, run) };
  }

  private async decode(scriptId: string, script: string, example: DecoderExample): Promise<Comparison> {
    const {
      input: { bytes, fPort, recvTime, variables = {} },
      extraInput,
    } = example;
    const direction = example.role === 'decoder' ? 'uplink' : 'downlink';
    const run = await retryIfServerFault(
      async () =>
        await this.sandbox.decode({
          owner: scriptId,
          script,
          direction,
          bytes: Uint8Array.from(bytes),
          fPort,
          recvTime,
          variables,
          extraInput,
        }),
    );
    return { run, difference: findDecoderDifference(example, run) };
  }
}

interface Comparison {
  readonly run: EncodeResult | DecodeResult;
  readonly difference: string | undefined;
}

/** Retries a script once if the machine was too busy. */
async function retryIfServerFault<Result extends EncodeResult | DecodeResult>(
  run: () => Promise<Result>,
): Promise<Result> {
  const result = await run();
  return result.isServerFault ? await run() : result;
}

/**
 * Runs all jobs, as many concurrently as there are workers. Rejects with the error of the first job that fails, and
 * then starts no more jobs.
 */
export async function runInParallel<Job>(
  jobs: AsyncIterable<Job> | Iterable<Job>,
  workers: number,
  runJob: (job: Job, index: number) => Promise<void>,
): Promise<void> {
  const numberedJobs = numberJobs(jobs); // shared: each worker takes the next job from it
  const worker = async (): Promise<void> => {
    for await (const [index, job] of numberedJobs) await runJob(job, index);
  };
  await Promise.all(Array.from({ length: workers }, worker));
}

/** Yields each job with its index. */
async function* numberJobs<Job>(jobs: AsyncIterable<Job> | Iterable<Job>): AsyncGenerator<[number, Job]> {
  let index = 0;
  for await (const job of jobs) yield [index++, job];
}
