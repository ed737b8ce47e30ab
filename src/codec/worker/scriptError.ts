import type { CodecError, CodecErrorCode } from '../codecRun';
import type { GuestFault } from '../guestWords';
import { tooBusy, type RunLimits } from '../runLimits';
import { GuestThrew, type Cell } from './cell';
import type { Engine } from './engine';
import type { StoppedBy } from './stopwatch';

const NO_ROOM = 'the script needs more memory than it may have (32 MiB)';
const NO_MEMORY = /^(InternalError: (out of memory( in regexp execution)?|string too long)$|RangeError: BigInt is too large)/;
// What the engine throws, as text, when some of its functions find no room and say nothing else.
const NOTHING_THROWN = '[unsupported type]';

/** How a run came to its end. */
export interface Circumstances {
  readonly engine: Engine;
  readonly cell: Cell;
  readonly script: string;
  readonly limits: RunLimits;
  /** Whether the script got as far as its last line. */
  readonly loaded: boolean;
  readonly stoppedBy: StoppedBy | undefined;
}

/** What to tell of something that was thrown while a script ran. */
export function errorOf(thrown: unknown, at: Circumstances): CodecError {
  const fault = thrown instanceof GuestThrew ? explain(at.cell, thrown) : undefined;
  const lineNumber = lineOf(fault?.stack ?? '', at.script);
  if (at.stoppedBy) return timeout(at.stoppedBy, at.limits, lineNumber);
  // Where memory is over, the engine may break, throw null, or fail to say what it threw.
  if ((!fault || fault.message === 'null') && at.engine.memoryIsFull()) return { code: 'out_of_memory', message: NO_ROOM, lineNumber };
  if (fault) return named(fault, lineNumber, at);
  return { code: 'runtime_error', message: `the script broke the engine that ran it: ${String(thrown)}`, lineNumber };
}

/** The error of a script whose time is over. */
export function timeout(stoppedBy: StoppedBy, limits: RunLimits, lineNumber: number | undefined): CodecError {
  const message = stoppedBy === 'machine' ? tooBusy(limits) : `the script computed longer than ${limits.scriptMs} ms; look for a loop that does not end`;
  return { code: 'timeout', message, lineNumber };
}

function named({ message }: GuestFault, lineNumber: number | undefined, { cell, script, loaded }: Circumstances): CodecError {
  if (message === NOTHING_THROWN) return { code: 'out_of_memory', message: NO_ROOM, lineNumber };
  if (NO_MEMORY.test(message)) return { code: 'out_of_memory', message: `${NO_ROOM}: ${message}`, lineNumber };
  const code: CodecErrorCode = !loaded && message.startsWith('SyntaxError') && !cell.compiles(script) ? 'syntax_error' : 'runtime_error';
  return { code, message, lineNumber };
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
  const line = Number(/(?:^|[ (])codec\.js:(\d+)(?::\d+)?\)?$/m.exec(stack)?.[1]);
  return line >= 1 && line <= script.split('\n').length ? line : undefined;
}
