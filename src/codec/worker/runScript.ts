import type { CodecError, EncodeResult } from '../codecRun';
import type { GuestResult } from '../guestWords';
import type { RunLimits } from '../runLimits';
import { GuestThrew, SCRIPT_FILE, type Cell } from './cell';
import type { Engine } from './engine';
import { LogLines } from './logLines';
import type { Job } from './messages';
import { errorOf, timeout } from './scriptError';
import { Stopwatch } from './stopwatch';

const GRACE_MS = 20;
const LONGEST_MESSAGE = 2000;
const CUT_ROOM = 40;
// `typeof` finds what a script declared with const or class, too, which no property of globalThis shows.
const NAMES = ['encodeDownlink', 'Encode', 'Encoder'].map((name) => `${name}: typeof ${name} === "function" ? ${name} : undefined`);
const FINDER = `({ ${NAMES.join(', ')}, exports: typeof module === "object" && module !== null ? module.exports : undefined })`;

/** A run, and whether it may have left the engine unfit for another. */
export interface Run {
  readonly result: EncodeResult;
  readonly spoiled: boolean;
}

interface Tools {
  readonly engine: Engine;
  /** Used up by the run. */
  readonly cell: Cell;
  readonly limits: RunLimits;
}

type Outcome = Pick<EncodeResult, 'output' | 'warnings' | 'error'>;

/** Runs a script in a clean cell. Never throws for anything that a script does. */
export function runScript(tools: Tools, job: Job): Run {
  const { engine, cell, limits } = tools;
  const watch = new Stopwatch(limits);
  cell.limit(() => watch.isOver());
  const state = { loaded: false };
  let outcome: Outcome;
  let broken = false;
  try {
    outcome = encode(cell, job, state);
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

function encode(cell: Cell, job: Job, state: { loaded: boolean }): Outcome {
  const input = cell.text(job.input);
  cell.evaluate(job.script, SCRIPT_FILE);
  state.loaded = true;
  cell.freeReserve();
  cell.drain();
  const found = cell.evaluate(FINDER, 'plantroom.js');
  if (!cell.isTrue(cell.ask('call', found, input))) {
    return failed({ code: 'no_encoder', message: 'the script defines no encoder; define function encodeDownlink(input) that returns {bytes: [1, 2, 3]}', lineNumber: undefined });
  }
  cell.drain();
  return outcomeOf(JSON.parse(cell.textOf(cell.ask('read'))) as GuestResult);
}

function outcomeOf({ hex, fPort, errors, problem, ...result }: GuestResult): Outcome {
  const warnings = bounded(result.warnings);
  if (problem) return { ...failed({ ...problem, lineNumber: undefined }), warnings };
  if (errors) return { ...failed({ code: 'encoder_errors', message: bounded(errors).join('; '), lineNumber: undefined }), warnings };
  return { output: { bytes: new Uint8Array(Buffer.from(hex ?? '', 'hex')), fPort }, warnings, error: undefined };
}

/** The script's own lines, at most as many as of its log. */
function bounded(lines: readonly string[]): readonly string[] {
  const kept = new LogLines();
  for (const line of lines) kept.add(line);
  return kept.all();
}

function failed({ message, ...error }: CodecError): Outcome {
  const more = message.length - LONGEST_MESSAGE;
  const said = more > 0 ? `${message.slice(0, LONGEST_MESSAGE - CUT_ROOM)} (cut: ${more + CUT_ROOM} more characters)` : message;
  return { output: undefined, warnings: [], error: { ...error, message: said } };
}
