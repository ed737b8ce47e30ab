import type { DecodeResult, EncodeResult, Sandbox } from '../../codec';
import { decoderDifference, encoderDifference } from './difference';
import type { DecoderExample, EncoderExample, Example, IdleExample } from './example';

/** What came of an example. */
export interface Outcome {
  /** `skipped`: there is nothing to compare. */
  readonly result: 'passed' | 'failed' | 'skipped';
  /** The first difference, or why there was nothing to compare; empty when it passed. */
  readonly why: string;
  /** Milliseconds of the script; null when it did not run. */
  readonly timeMs: number | null;
}

// A script that runs into a limit again and again would take a second for each of its examples.
const MOST_OVERRUNS = 3;
const OVERRUNS: readonly unknown[] = ['timeout', 'out_of_memory'];

/** Runs examples in a sandbox, and no more those of a script that overran its time or memory three times. */
export class ExampleRunner {
  private readonly overruns = new Map<string, number>();

  constructor(private readonly sandbox: Sandbox) {}

  /** Runs one. `owner` tells one script from another. */
  async run(owner: string, script: string, example: Example): Promise<Outcome> {
    if (isIdle(example)) return { result: example.result, why: example.why, timeMs: null };
    const overruns = this.overruns.get(owner) ?? 0;
    if (overruns >= MOST_OVERRUNS) return { result: 'failed', why: `not run: the script ran out of time or memory ${overruns} times`, timeMs: null };
    const { difference, run } = example.role === 'encoder' ? await this.encode(owner, script, example) : await this.decode(owner, script, example);
    if (OVERRUNS.includes(run.error?.code)) this.overruns.set(owner, (this.overruns.get(owner) ?? 0) + 1);
    return { result: difference === undefined ? 'passed' : 'failed', why: difference ?? '', timeMs: run.executionTimeMs };
  }

  private async encode(owner: string, script: string, example: EncoderExample): Promise<Compared> {
    const { data, fPort, variables = {} } = example.input;
    const run = await again(async () => await this.sandbox.encode({ owner, script, data, fPort, variables }));
    return { run, difference: encoderDifference(example, run) };
  }

  private async decode(owner: string, script: string, example: DecoderExample): Promise<Compared> {
    const { bytes, fPort, recvTime, variables = {} } = example.input;
    const direction = example.role === 'decoder' ? 'uplink' : 'downlink';
    const run = await again(async () => await this.sandbox.decode({ owner, script, direction, bytes: Uint8Array.from(bytes), fPort, recvTime, variables }));
    return { run, difference: decoderDifference(example, run) };
  }
}

interface Compared {
  readonly run: EncodeResult | DecodeResult;
  readonly difference: string | undefined;
}

/** Tries a script once more that the machine was too busy for. */
async function again<Result extends EncodeResult | DecodeResult>(run: () => Promise<Result>): Promise<Result> {
  const result = await run();
  return result.blameless ? await run() : result;
}

function isIdle(example: Example): example is IdleExample {
  return 'result' in example;
}

/** Does the work of each job, as many at once as there are workers; `at` is the job's place. Throws what a job throws, and begins no more then. */
export async function inParallel<Job>(jobs: AsyncIterable<Job> | Iterable<Job>, workers: number, work: (job: Job, at: number) => Promise<void>): Promise<void> {
  const open = numbered(jobs);
  const worker = async (): Promise<void> => {
    for await (const [at, job] of open) await work(job, at);
  };
  await Promise.all(Array.from({ length: workers }, worker));
}

async function* numbered<Job>(jobs: AsyncIterable<Job> | Iterable<Job>): AsyncGenerator<[number, Job]> {
  let at = 0;
  for await (const job of jobs) yield [at++, job];
}
