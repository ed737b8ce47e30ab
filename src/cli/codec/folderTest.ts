import { formatCodecError, type Sandbox } from '../../codec';
import { AlreadyReportedError, UsageError } from '../exit';
import { print, printJson, showTable } from '../output';
import { toPlainText } from '../plainText';
import { Progress } from '../progress';
import type { Example } from './example';
import { readExamples } from './exampleFile';
import { ExampleRunner, runInParallel, type Outcome } from './exampleRunner';
import { findScripts, type FoundScript, type UnreadableEntry } from './findScripts';
import { readTextFile } from './textFile';
import { withSandbox, type CodecFlags } from './codecRunner';

/** One row of the table. */
interface ResultRow extends Omit<Outcome, 'result'> {
  readonly script: string;
  readonly example: string;
  readonly result: Outcome['result'] | 'no examples';
}

/** An example to run. */
interface ExampleJob {
  readonly scriptName: string;
  readonly scriptText: string;
  readonly example: Example;
}

/** An example to run, or a row whose result is already known, unless its script cannot be compiled. */
type Job = ExampleJob | { readonly row: ResultRow; readonly scriptText?: string };

/**
 * Runs `plantroom codec test FOLDER`: every script of a folder with its examples, in parallel. Exit code 1 if one
 * failed or none passed.
 */
export async function runFolderTest(folder: string, flags: CodecFlags): Promise<void> {
  const jobs = findScripts(folder).flatMap(listJobs);
  const progress = new Progress(jobs.length, flags.json ? { write: () => {} } : process.stderr);
  const rows: ResultRow[] = [];
  await withSandbox(flags, { maxWorkers: jobs.length }, async (sandbox, workers) => {
    const runner = new ExampleRunner(sandbox);
    await runInParallel(jobs, workers, async (job, index) => {
      const row = 'row' in job ? await checkScript(job, sandbox) : await runExample(job, runner);
      rows[index] = row;
      progress.step(toPlainText(row.script));
    });
  });
  progress.clear();
  const count = (result: ResultRow['result']): number => rows.filter((row) => row.result === result).length;
  const summary = {
    passed: count('passed'),
    failed: count('failed'),
    noExamples: count('no examples'),
    skipped: count('skipped'),
  };
  if (flags.json) printJson({ ...summary, results: rows });
  else showRows(rows, summary, folder);
  if (summary.failed > 0 || summary.passed === 0) throw new AlreadyReportedError(1);
}

/**
 * Returns one job for each example of a script. For a script without usable examples it is one job that consists only
 * of its row, which says why.
 */
function listJobs(entry: FoundScript | UnreadableEntry): Job[] {
  const createRow = (result: ResultRow['result'], why: string, scriptText?: string): Job => ({
    row: { script: entry.name, example: '', result, why, timeMs: null },
    ...(scriptText !== undefined && { scriptText }),
  });
  if ('problem' in entry) return [createRow('failed', entry.problem)];
  try {
    const scriptText = readTextFile(entry.file);
    if (entry.examples === undefined)
      return [createRow('no examples', 'there is no example file next to it', scriptText)];
    const examples = readExamples(entry.examples);
    return examples.length === 0
      ? [createRow('no examples', `${entry.examples} is an empty list`, scriptText)]
      : examples.map((example) => ({ scriptName: entry.name, scriptText, example }));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return [createRow('failed', error.message)];
  }
}

/** Returns the row of a script without examples; it failed if the script cannot be compiled. */
async function checkScript(
  { row, scriptText }: { readonly row: ResultRow; readonly scriptText?: string },
  sandbox: Sandbox,
): Promise<ResultRow> {
  const error = scriptText === undefined ? undefined : await sandbox.compile('codec test', scriptText);
  if (!error) return row;
  return { ...row, result: 'failed', why: formatCodecError(error) };
}

/** Runs an example and returns its row. */
async function runExample({ scriptName, scriptText, example }: ExampleJob, runner: ExampleRunner): Promise<ResultRow> {
  return { script: scriptName, example: example.name, ...(await runner.run(scriptName, scriptText, example)) };
}

/** Prints one row per example, and the totals. */
function showRows(
  rows: readonly ResultRow[],
  { passed, failed, noExamples, skipped }: Readonly<Record<string, number>>,
  folder: string,
): void {
  if (rows.length === 0) return print(`No scripts (*.js) in ${folder}.`);
  const shown = rows.map((row) => ({
    script: toPlainText(row.script, 80),
    example: toPlainText(row.example, 60),
    result: row.result,
    time: row.timeMs === null ? '' : `${row.timeMs.toFixed(1)} ms`,
    why: toPlainText(row.why),
  }));
  showTable(shown, ['script', 'example', 'result', 'time', 'why'], {});
  const more = [noExamples ? `${noExamples} without examples` : '', skipped ? `${skipped} skipped` : ''].filter(
    Boolean,
  );
  print(`\n${[`${passed} passed`, `${failed} failed`, ...more].join(', ')}`);
}
