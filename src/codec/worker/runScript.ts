import { cut } from '../../kernel/shortened';
import type { CodecError } from '../codecRun';
import type { GuestResult } from '../guestWords';
import type { RunLimits } from '../runLimits';
import { GuestThrew, SCRIPT_FILE, type Cell } from './cell';
import type { Engine } from './engine';
import { LogLines } from './logLines';
import type { Job, ScriptResult } from './messages';
import { rulesOf, type RoleRules } from './roleRules';
import { errorOf, timeout } from './scriptError';
import { Stopwatch } from './stopwatch';

const GRACE_MS = 20;
const LONGEST_MESSAGE = 2000;
const CUT_ROOM = 40;

/** A run, and whether it may have left the engine unfit for another. */
export interface Run {
  readonly result: ScriptResult;
  readonly spoiled: boolean;
}

interface Tools {
  readonly engine: Engine;
  /** Used up by the run. */
  readonly cell: Cell;
  readonly limits: RunLimits;
}

type Outcome = Pick<ScriptResult, 'answer' | 'warnings' | 'error'>;

/** Runs a script in a clean cell. Never throws for anything that a script does. */
export function runScript(tools: Tools, job: Job): Run {
  const { engine, cell, limits } = tools;
  const watch = new Stopwatch(limits);
  cell.limit(() => watch.isOver());
  const state = { loaded: false };
  let outcome: Outcome;
  let broken = false;
  try {
    outcome = runJob(cell, job, state);
  } catch (thrown) {
    broken = !(thrown instanceof GuestThrew);
    watch.allow(GRACE_MS);
    outcome = failed(errorOf(thrown, { ...tools, script: job.script, loaded: state.loaded, stoppedBy: watch.stoppedBy }));
  }
  const { stoppedBy } = watch;
  if (stoppedBy && outcome.error?.code !== 'timeout') outcome = failed(timeout(stoppedBy, limits, undefined));
  const executionTimeMs = Math.round(watch.elapsedMs() * 1000) / 1000;
  return { result: { ...outcome, blameless: stoppedBy === 'machine', logs: cell.logs.all(), executionTimeMs }, spoiled: broken || engine.memoryHasGrown() };
}

function runJob(cell: Cell, job: Job, state: { loaded: boolean }): Outcome {
  const rules = rulesOf(job.role);
  const [role, input] = [cell.text(job.role), cell.text(job.input)];
  cell.evaluate(job.script, SCRIPT_FILE);
  state.loaded = true;
  cell.freeReserve();
  cell.drain();
  const found = cell.evaluate(rules.finder, 'plantroom.js');
  if (!cell.isTrue(cell.ask('call', role, found, input))) return failed(rules.missing);
  cell.drain();
  return outcomeOf(JSON.parse(cell.textOf(cell.ask('read'))) as GuestResult, rules);
}

function outcomeOf({ answer, errors, ...result }: GuestResult, rules: RoleRules): Outcome {
  const warnings = bounded(result.warnings);
  const problem = result.problem ?? (answer && rules.problemOf(answer));
  if (problem) return { ...failed({ ...problem, lineNumber: undefined }), warnings };
  if (errors) return { ...failed({ code: rules.ownErrors, message: bounded(errors).join('; '), lineNumber: undefined }), warnings };
  return { answer, warnings, error: undefined };
}

/** The script's own lines, at most as many as of its log. */
function bounded(lines: readonly string[]): readonly string[] {
  const kept = new LogLines();
  for (const line of lines) kept.add(line);
  return kept.all();
}

function failed({ message, ...error }: CodecError): Outcome {
  const clean = storable(message);
  const more = clean.length - LONGEST_MESSAGE;
  const said = more > 0 ? `${cut(clean, LONGEST_MESSAGE - CUT_ROOM)} (cut: ${more + CUT_ROOM} more characters)` : clean;
  return { answer: undefined, warnings: [], error: { ...error, message: said } };
}

/** What a script says, as it can be stored, sent and shown: no half of a surrogate pair, and of control characters only the ends of lines. */
function storable(text: string): string {
  return text.toWellFormed().replaceAll(/(?!\n)\p{Cc}/gu, (char) => `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`);
}
