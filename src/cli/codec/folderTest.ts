import { Reported, UsageError } from '../exit';
import { say, sayJson, showTable } from '../output';
import { plainText } from '../plainText';
import { Progress } from '../progress';
import type { Example } from './example';
import { readExamples } from './exampleFile';
import { ExampleRunner, inParallel, type Outcome } from './exampleRunner';
import { findScripts, type FoundScript } from './scripts';
import { readTextFile } from './textFile';
import { withSandboxOf, type CodecFlags } from './workbench';

/** One line of the table. */
interface Row extends Omit<Outcome, 'result'> {
  readonly script: string;
  readonly example: string;
  readonly result: Outcome['result'] | 'no examples';
}

/** One thing to do: a row that is known already, or an example to run. */
type Job = { readonly row: Row } | { readonly found: FoundScript; readonly script: string; readonly example: Example };

/** `plantroom codec test FOLDER`: every script of a folder with its examples, in parallel. Exit code 1 if one failed or none was run. */
export async function runFolderTest(folder: string, flags: CodecFlags): Promise<void> {
  const jobs = findScripts(folder).flatMap(jobsOf);
  const progress = new Progress(jobs.length, flags.json ? { write: () => {} } : process.stderr);
  const rows: Row[] = [];
  await withSandboxOf(flags, jobs.length, async (sandbox, workers) => {
    const runner = new ExampleRunner(sandbox);
    await inParallel(jobs, workers, async (job, at) => {
      const row = 'row' in job ? job.row : await rowOf(job, runner);
      rows[at] = row;
      progress.step(plainText(row.script));
    });
  });
  progress.clear();
  const count = (result: Row['result']): number => rows.filter((row) => row.result === result).length;
  const summary = { passed: count('passed'), failed: count('failed'), noExamples: count('no examples'), skipped: count('skipped') };
  if (flags.json) sayJson({ ...summary, results: rows });
  else showRows(rows, summary, folder);
  if (summary.failed > 0 || summary.passed === 0) throw new Reported(1);
}

function jobsOf(found: FoundScript): Job[] {
  const row = (result: Row['result'], why: string): Job => ({ row: { script: found.name, example: '', result, why, timeMs: null } });
  if (found.examples === undefined) return [row('no examples', 'there is no file of examples beside it')];
  try {
    const script = readTextFile(found.file);
    const examples = readExamples(found.examples);
    return examples.length === 0 ? [row('no examples', `${found.examples} is an empty list`)] : examples.map((example) => ({ found, script, example }));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return [row('failed', error.message)];
  }
}

async function rowOf({ found, script, example }: Exclude<Job, { row: Row }>, runner: ExampleRunner): Promise<Row> {
  return { script: found.name, example: example.name, ...(await runner.run(found.name, script, example)) };
}

function showRows(rows: readonly Row[], { passed, failed, noExamples, skipped }: Readonly<Record<string, number>>, folder: string): void {
  if (rows.length === 0) return say(`There is no script (*.js) in ${folder}.`);
  const shown = rows.map((row) => ({ script: plainText(row.script, 80), example: plainText(row.example, 60), result: row.result, time: row.timeMs === null ? '' : `${row.timeMs.toFixed(1)} ms`, why: plainText(row.why) }));
  showTable(shown, ['script', 'example', 'result', 'time', 'why'], {});
  const more = [noExamples ? `${noExamples} without examples` : '', skipped ? `${skipped} skipped` : ''].filter(Boolean);
  say(`\n${[`${passed} passed`, `${failed} failed`, ...more].join(', ')}`);
}
