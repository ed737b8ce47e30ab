import { truncate } from '../../kernel/truncate';
import type { CodecError } from '../codecRun';
import { removeExports } from '../pastedScript';
import type { GuestResult } from '../sandboxProtocol';
import type { RunLimits } from '../runLimits';
import type { PreparedSandbox } from './preparedSandbox';
import { SCRIPT_FILE, type SandboxContext } from './sandboxContext';
import type { AcquiredSandbox } from './sandboxPool';
import { LogLines } from './logLines';
import type { ScriptJob, ScriptResult } from './messages';
import { getRules, type RoleRules } from './roleRules';
import { createOutOfMemoryError, createScriptError, createTimeoutError } from './scriptError';
import { CpuTimer } from './cpuTimer';

/** The CPU time for describing what a script threw, in addition to the script's own time. */
const EXPLAIN_GRACE_MS = 20;
const MAX_MESSAGE_LENGTH = 2000;
/** The space that is reserved for the note at the end of a message that was cut. */
const CUT_NOTE_LENGTH = 40;

/** The result of a run, and whether the engine may be unfit for another one. */
interface RunOutcome {
  readonly result: ScriptResult;
  readonly isCorrupted: boolean;
}

interface RunEnvironment {
  readonly acquired: AcquiredSandbox;
  /** How often the engine has read the clock. */
  readonly countClockReads: () => number;
  readonly limits: RunLimits;
}

type Outcome = Pick<ScriptResult, 'answer' | 'nonFinite' | 'warnings' | 'error'>;

/** Runs a script in a sandbox whose memory is restored. Never throws for anything that a script does. */
export function runScript(environment: RunEnvironment, job: ScriptJob): RunOutcome {
  const { acquired, limits } = environment;
  const { sandbox } = acquired;
  const timer = new CpuTimer(limits, acquired.loaded?.cpuMs);
  sandbox.context.setInterruptCheck(() => timer.shouldStop());
  const progress = { isLoaded: acquired.loaded !== undefined }; // set by loadScript, and still readable after it threw
  let outcome: Outcome;
  try {
    outcome = runJob(environment, job, timer, progress);
  } catch (thrown) {
    sandbox.context.recordThrown(thrown);
    timer.grantGrace(EXPLAIN_GRACE_MS);
    outcome = createErrorOutcome(
      createScriptError(thrown, {
        sandbox,
        limits,
        script: job.script,
        isLoaded: progress.isLoaded,
        stoppedBy: timer.stoppedBy,
      }),
    );
  }
  const { stoppedBy } = timer;
  // A script can end without an error although its time is over, for example with promise jobs that did not run.
  if (stoppedBy && outcome.error?.code !== 'timeout')
    outcome = createErrorOutcome(createTimeoutError(stoppedBy, limits, undefined));
  const executionTimeMs = Math.round(timer.getElapsedMs() * 1000) / 1000; // rounded to microseconds
  return {
    result: { ...outcome, isServerFault: stoppedBy === 'machine', logs: sandbox.context.logs.list(), executionTimeMs },
    isCorrupted: sandbox.isCorrupted(),
  };
}

/**
 * Loads the script, unless that was done before, and calls its function; without an input it only compiles the script.
 */
function runJob(
  environment: RunEnvironment,
  job: ScriptJob,
  timer: CpuTimer,
  progress: { isLoaded: boolean },
): Outcome {
  const { acquired } = environment;
  if (job.input === '') return compileScript(acquired.sandbox.context, job.script);
  if (!acquired.loaded) {
    const isRepeatable = loadScript(environment, job.script, progress);
    if (isRepeatable && !timer.shouldStop()) acquired.saveLoaded(timer.getCpuMs());
  }
  return callFunction(acquired.sandbox, job);
}

/**
 * Loads the script. Promise jobs run afterwards, because the script may be asynchronous. Returns whether the next run
 * would load the script in the same way: the script has read neither the clock nor random numbers.
 */
function loadScript(
  { acquired: { sandbox }, countClockReads }: RunEnvironment,
  script: string,
  progress: { isLoaded: boolean },
): boolean {
  const { context } = sandbox;
  const readsBefore = countClockReads() + context.randomNumberCount;
  context.evaluate(removeExportsOfModule(context, script), SCRIPT_FILE);
  progress.isLoaded = true;
  context.freeReserve('whenLoaded');
  context.runPendingJobs();
  return countClockReads() + context.randomNumberCount === readsBefore;
}

/**
 * Returns the script; without `export` if it cannot be compiled. The check costs as much as compiling the script, so it
 * is only made for a script that may contain exports.
 */
function removeExportsOfModule(context: SandboxContext, script: string): string {
  const withoutExports = removeExports(script);
  return withoutExports === script || context.canCompile(script) ? script : withoutExports;
}

/** Compiles a script without running it. Throws ScriptError if that is not possible. */
function compileScript(context: SandboxContext, script: string): Outcome {
  const compiled = removeExportsOfModule(context, script);
  // A script that cannot be compiled does not run: evaluating it only throws the error.
  if (!context.canCompile(compiled)) context.evaluate(compiled, SCRIPT_FILE);
  return { answer: undefined, warnings: [], error: undefined };
}

/**
 * Calls the function of the loaded script and reads the result through our guest code in the context. Promise jobs run
 * after the call, because the function may be asynchronous.
 */
function callFunction({ context, engine }: PreparedSandbox, job: ScriptJob): Outcome {
  // Without this check, the engine would write the input to its static data.
  if (engine.isMemoryFull()) return createErrorOutcome(createOutOfMemoryError());
  const rules = getRules(job.role);
  const [role, input] = [context.createText(job.role), context.createText(job.input)];
  const definitions = context.evaluate(rules.entryPointScript, 'plantroom.js');
  if (!context.isTrue(context.callGuest('call', role, definitions, input)))
    return createErrorOutcome(rules.missingFunctionError);
  context.runPendingJobs();
  return toOutcome(JSON.parse(context.readText(context.callGuest('read'))) as GuestResult, rules);
}

/** Converts the guest's result. Errors that the script reports itself do not discard its warnings. */
function toOutcome({ answer, errors, ...result }: GuestResult, rules: RoleRules): Outcome {
  const warnings = limitLines(result.warnings);
  const problem = result.problem ?? (answer && rules.findProblem(answer));
  if (problem) return { ...createErrorOutcome({ ...problem, lineNumber: undefined }), warnings };
  if (errors)
    return {
      ...createErrorOutcome({
        code: rules.reportedErrorCode,
        message: limitLines(errors).join('; '),
        lineNumber: undefined,
      }),
      warnings,
    };
  return { answer, nonFinite: result.nonFinite, warnings, error: undefined };
}

/** Limits the number and size of lines that a script returns, in the same way as the lines of its log. */
function limitLines(lines: readonly string[]): readonly string[] {
  const limited = new LogLines();
  for (const line of lines) limited.add(line);
  return limited.list();
}

/** Creates the outcome of an error; a long message is cut, and ends with a note about that. */
function createErrorOutcome({ message, ...error }: CodecError): Outcome {
  const cleanMessage = cleanText(message);
  const excess = cleanMessage.length - MAX_MESSAGE_LENGTH;
  const shortened =
    excess > 0
      ? `${truncate(cleanMessage, MAX_MESSAGE_LENGTH - CUT_NOTE_LENGTH)} (cut: ${excess + CUT_NOTE_LENGTH} more characters)`
      : cleanMessage;
  return { answer: undefined, warnings: [], error: { ...error, message: shortened } };
}

/**
 * Cleans a script's text so that it can be stored, sent and shown: no unpaired surrogates, and no control characters
 * other than line ends.
 */
function cleanText(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/(?!\n)\p{Cc}/gu, (char) => `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`);
}
