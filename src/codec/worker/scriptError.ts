import type { CodecError } from '../codecRun';
import { findSyntaxHint } from '../pastedScript';
import type { GuestFault } from '../sandboxProtocol';
import { formatBusyMessage, type RunLimits } from '../runLimits';
import type { PreparedSandbox } from './preparedSandbox';
import { ScriptError, type SandboxContext } from './sandboxContext';
import type { StopCause } from './cpuTimer';

const OUT_OF_MEMORY_MESSAGE = 'the script needs too much memory: the maximum is 32 MiB';
const OUT_OF_MEMORY_PATTERN =
  /^(InternalError: (out of memory( in regexp execution)?|string too long)$|RangeError: BigInt is too large)/;
// The text that the engine throws when some of its functions run out of memory without another message.
const SILENT_OUT_OF_MEMORY_MESSAGE = '[unsupported type]';

/** How a run finished. */
interface RunContext {
  readonly sandbox: PreparedSandbox;
  readonly script: string;
  readonly limits: RunLimits;
  /** Whether the script reached its last line. */
  readonly isLoaded: boolean;
  readonly stoppedBy: StopCause | undefined;
}

/** Creates the error for something that was thrown while a script ran. */
export function createScriptError(thrown: unknown, run: RunContext): CodecError {
  const fault = thrown instanceof ScriptError ? readFault(run.sandbox.context, thrown) : undefined;
  const lineNumber = findLineNumber(fault?.stack ?? '', run.script);
  if (run.stoppedBy) return createTimeoutError(run.stoppedBy, run.limits, lineNumber);
  // Without memory, the engine may break, throw null, or fail to report what it threw.
  if ((!fault || fault.message === 'null') && run.sandbox.engine.isMemoryFull())
    return createOutOfMemoryError(lineNumber);
  if (fault) return classifyFault(fault, lineNumber, run);
  return { code: 'runtime_error', message: `the script broke the engine that ran it: ${String(thrown)}`, lineNumber };
}

/** Creates the error for a script that used up its memory. */
export function createOutOfMemoryError(lineNumber?: number): CodecError {
  return { code: 'out_of_memory', message: OUT_OF_MEMORY_MESSAGE, lineNumber };
}

/** Creates the error for a script whose time is over. */
export function createTimeoutError(
  stoppedBy: StopCause,
  limits: RunLimits,
  lineNumber: number | undefined,
): CodecError {
  const message =
    stoppedBy === 'machine'
      ? formatBusyMessage(limits)
      : `the script used more than ${limits.timeoutMs} ms of CPU time: check it for an endless loop`;
  return { code: 'timeout', message, lineNumber };
}

/** Creates the error for something that the script itself threw. */
function classifyFault(
  { message }: GuestFault,
  lineNumber: number | undefined,
  { sandbox, script, isLoaded }: RunContext,
): CodecError {
  if (message === SILENT_OUT_OF_MEMORY_MESSAGE) return createOutOfMemoryError(lineNumber);
  if (OUT_OF_MEMORY_PATTERN.test(message))
    return { code: 'out_of_memory', message: `${OUT_OF_MEMORY_MESSAGE}: ${message}`, lineNumber };
  // A script can also throw a SyntaxError itself, for example with JSON.parse.
  const isSyntaxError = !isLoaded && message.startsWith('SyntaxError') && !sandbox.context.canCompile(script);
  if (!isSyntaxError) return { code: 'runtime_error', message, lineNumber };
  const hint = findSyntaxHint(script, lineNumber);
  return { code: 'syntax_error', message: hint === undefined ? message : `${message}; ${hint}`, lineNumber };
}

/** Reads the thrown value; undefined if the guest can no longer report it, although its memory reserve is freed. */
function readFault(context: SandboxContext, { handle }: ScriptError): GuestFault | undefined {
  context.freeReserve('whenFailed');
  try {
    return JSON.parse(context.readText(context.callGuest('explain', handle))) as GuestFault;
  } catch {
    return undefined;
  }
}

/**
 * Finds the number of the topmost line of the user's script (codec.js) in a stack trace; undefined if none is in it.
 */
function findLineNumber(stack: string, script: string): number | undefined {
  // NaN without a match, which is not >= 1
  const lineNumber = Number(/(?:^|[ (])codec\.js:(\d+)(?::\d+)?\)?$/m.exec(stack)?.[1]);
  return lineNumber >= 1 && lineNumber <= script.split('\n').length ? lineNumber : undefined;
}
