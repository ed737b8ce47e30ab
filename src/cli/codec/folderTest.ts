import type { EncodeResult, Sandbox } from '../../codec';
import { Reported, UsageError } from '../exit';
import { say, showTable } from '../output';
import { differenceOf } from './difference';
import { readExamples, type Example } from './exampleFile';
import { Progress } from '../progress';
import { findScripts, type FoundScript } from './scripts';
import { readTextFile } from './textFile';
import { plainText, withSandboxOf, type CodecFlags } from './workbench';

/** One line of the table. */
interface Row {
  readonly script: string;
  readonly example: string;
  /** `skipped`: an example of a decoder. */
  readonly result: 'passed' | 'failed' | 'no examples' | 'skipped';
  /** The first difference, or why there was nothing to compare; empty when it passed. */
  readonly why: string;
  /** Milliseconds of the script; null when it did not run. */
  readonly timeMs: number | null;
}

/** One thing to do: a row that is known already, or an example to run. */
type Job = { readonly row: Row } | { readonly found: FoundScript; readonly script: string; readonly example: Example };

// A script that runs into a limit again and again would take a second for each of its examples.
const MOST_OVERRUNS = 3;
const OVERRUNS: readonly unknown[] = ['timeout', 'out_of_memory'];

/** `plantroom codec test`: every script of a folder with its examples, in parallel. Exit code 1 if one failed or none was run. */
export async function runCodecTest(folder: string, flags: CodecFlags): Promise<void> {
  const jobs = findScripts(folder).flatMap(jobsOf);
  const progress = new Progress(jobs.length, flags.json ? { write: () => {} } : process.stderr);
  const rows = await withSandboxOf(flags, jobs.length, (sandbox, workers) => runJobs(jobs, new Runner(sandbox), workers, progress));
  progress.clear();
  const count = (result: Row['result']): number => rows.filter((row) => row.result === result).length;
  const summary = { passed: count('passed'), failed: count('failed'), noExamples: count('no examples'), skipped: count('skipped') };
  if (flags.json) say(JSON.stringify({ ...summary, results: rows }));
  else showRows(rows, summary, folder);
  if (summary.failed > 0 || summary.passed === 0) throw new Reported(1);
}

function jobsOf(found: FoundScript): Job[] {
  const row = (example: string, result: Row['result'], why: string): Job => ({ row: { script: found.name, example, result, why, timeMs: null } });
  if (found.examples === undefined) return [row('', 'no examples', 'there is no file of examples beside it')];
  try {
    const script = readTextFile(found.file);
    const examples = readExamples(found.examples);
    if (examples.length === 0) return [row('', 'no examples', `${found.examples} is an empty list`)];
    return examples.map((example) => {
      if (example.foreign) return row(example.name, 'skipped', 'an example of a decoder');
      return example.problem === undefined ? { found, script, example } : row(example.name, 'failed', example.problem);
    });
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return [row('', 'failed', error.message)];
  }
}

/** Runs as many at once as there are workers; the rows come in the order of the jobs. */
async function runJobs(jobs: readonly Job[], runner: Runner, workers: number, progress: Progress): Promise<Row[]> {
  const rows: Row[] = [];
  const open = jobs.entries();
  const work = async (): Promise<void> => {
    for (const [at, job] of open) {
      const row = 'row' in job ? job.row : await runner.run(job.found.name, job.script, job.example);
      rows[at] = row;
      progress.step(plainText(row.script));
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  return rows;
}

class Runner {
  private readonly overruns = new Map<string, number>();

  constructor(private readonly sandbox: Sandbox) {}

  async run(name: string, script: string, one: Example): Promise<Row> {
    const { name: example, input } = one;
    const overruns = this.overruns.get(name) ?? 0;
    if (overruns >= MOST_OVERRUNS) return { script: name, example, result: 'failed', why: `not run: the script ran out of time or memory ${overruns} times`, timeMs: null };
    const result = await this.sandbox.encode({ owner: name, script, data: input.data, fPort: input.fPort, variables: input.variables ?? {} });
    if (isOverrun(result)) this.overruns.set(name, (this.overruns.get(name) ?? 0) + 1);
    const why = differenceOf(one, result);
    return { script: name, example, result: why === undefined ? 'passed' : 'failed', why: why ?? '', timeMs: result.executionTimeMs };
  }
}

function isOverrun({ error }: EncodeResult): boolean {
  return OVERRUNS.includes(error?.code);
}

function showRows(rows: readonly Row[], { passed, failed, noExamples, skipped }: Readonly<Record<string, number>>, folder: string): void {
  if (rows.length === 0) return say(`There is no script (*.js) in ${folder}.`);
  const shown = rows.map((row) => ({ script: plainText(row.script, 80), example: plainText(row.example, 60), result: row.result, time: row.timeMs === null ? '' : `${row.timeMs.toFixed(1)} ms`, why: plainText(row.why) }));
  showTable(shown, ['script', 'example', 'result', 'time', 'why'], {});
  const more = [noExamples ? `${noExamples} without examples` : '', skipped ? `${skipped} skipped` : ''].filter(Boolean);
  say(`\n${[`${passed} passed`, `${failed} failed`, ...more].join(', ')}`);
}
