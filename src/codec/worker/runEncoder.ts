import type { CodecError, CodecErrorCode, EncodeResult } from '../codecRun';
import type { GuestFault, GuestResult } from '../guestWords';
import { GuestThrew, SCRIPT_FILE, type Cell } from './cell';
import type { Engine } from './engine';
import type { Job } from './messages';
import { Stopwatch } from './stopwatch';

const GRACE_MS = 20;
// `typeof` finds what a script declared with const or class, too, which no property of globalThis shows.
const NAMES = ['encodeDownlink', 'Encode', 'Encoder'].map((name) => `${name}: typeof ${name} === "function" ? ${name} : undefined`);
const FINDER = `({ ${NAMES.join(', ')}, exports: typeof module === "object" && module !== null ? module.exports : undefined })`;
const NO_MEMORY = /^(InternalError: (out of memory|string too long)$|RangeError: BigInt is too large)/;

/** A run, and whether it may have left the engine unfit for another. */
export interface Run {
  readonly result: EncodeResult;
  readonly spoiled: boolean;
}

interface Tools {
  readonly engine: Engine;
  /** Used up by the run. */
  readonly cell: Cell;
  readonly limits: { readonly scriptMs: number; readonly hardMs: number };
}

type Outcome = Pick<EncodeResult, 'output' | 'warnings' | 'error'>;

/** Runs a script in a clean cell. Never throws for anything that a script does. */
export function runEncoder(tools: Tools, job: Job): Run {
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
    outcome = failed(errorOf(thrown, { ...tools, job, loaded: state.loaded, timedOut: watch.wasOver }));
  }
  if (watch.wasOver && outcome.error?.code !== 'timeout') outcome = failed(timeout(limits, undefined));
  const executionTimeMs = Math.round(watch.elapsedMs() * 1000) / 1000;
  return { result: { ...outcome, logs: cell.logs.all(), executionTimeMs }, spoiled: broken || engine.memoryHasGrown() };
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

function outcomeOf({ hex, fPort, errors, problem, warnings }: GuestResult): Outcome {
  if (problem) return { ...failed({ ...problem, lineNumber: undefined }), warnings };
  if (errors) return { ...failed({ code: 'encoder_errors', message: errors.join('; '), lineNumber: undefined }), warnings };
  return { output: { bytes: new Uint8Array(Buffer.from(hex ?? '', 'hex')), fPort }, warnings, error: undefined };
}

const failed = (error: CodecError): Outcome => ({ output: undefined, warnings: [], error });

function timeout({ scriptMs, hardMs }: Tools['limits'], lineNumber: number | undefined): CodecError {
  return { code: 'timeout', message: `the script was stopped: it may compute for ${scriptMs} ms and take ${hardMs} ms in all; look for a loop that does not end`, lineNumber };
}

interface Circumstances extends Tools {
  readonly job: Job;
  readonly loaded: boolean;
  readonly timedOut: boolean;
}

function errorOf(thrown: unknown, at: Circumstances): CodecError {
  const fault = thrown instanceof GuestThrew ? explain(at.cell, thrown) : { message: String(thrown), stack: '' };
  const lineNumber = lineOf(fault?.stack ?? '', at.job.script);
  if (at.timedOut) return timeout(at.limits, lineNumber);
  const code = codeOf(fault, at);
  if (code === 'out_of_memory') return { code, message: `the script needs more memory than it may have (32 MiB)${fault && fault.message !== 'null' ? `: ${fault.message}` : ''}`, lineNumber };
  return { code, message: fault?.message ?? 'the script failed in a way that cannot be told', lineNumber };
}

function codeOf(fault: GuestFault | undefined, { engine, cell, job, loaded }: Circumstances): CodecErrorCode {
  // Where memory is over, the engine may throw null, or fail to say what it threw.
  if (engine.memoryIsFull() && (!fault || fault.message === 'null')) return 'out_of_memory';
  if (!fault) return 'runtime_error';
  if (NO_MEMORY.test(fault.message)) return 'out_of_memory';
  return !loaded && fault.message.startsWith('SyntaxError') && !cell.compiles(job.script) ? 'syntax_error' : 'runtime_error';
}

/** What was thrown; undefined when the guest can no longer tell. */
function explain(cell: Cell, { handle }: GuestThrew): GuestFault | undefined {
  cell.freeReserve();
  try {
    return JSON.parse(cell.textOf(cell.ask('explain', handle))) as GuestFault;
  } catch {
    return undefined;
  }
}

/** The topmost line of the user's script in a stack trace. */
function lineOf(stack: string, script: string): number | undefined {
  const line = Number(/(?:^|[ (])encoder\.js:(\d+)(?::\d+)?\)?$/m.exec(stack)?.[1]);
  return line >= 1 && line <= script.split('\n').length ? line : undefined;
}
