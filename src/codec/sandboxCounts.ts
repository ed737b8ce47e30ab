import { Durations, QUICK } from '../kernel/durations';
import { Tally } from '../kernel/tally';
import type { CodecErrorCode } from './codecRun';
import type { ThreadEnd } from './scriptThread';

/** How a run ended: `ok`, a code of a CodecError, or `refused`: it did not run, because too many waited or there was no thread. */
export type RunResult = 'ok' | 'refused' | CodecErrorCode;

/** What the sandbox did since the server started. */
export class SandboxCounts {
  readonly runs = new Tally<RunResult>(['ok', 'refused', 'timeout', 'out_of_memory']);
  /** How long scripts ran. */
  readonly durations = new Durations(QUICK);
  /** How long they waited for their turn, and ran. */
  readonly waits = new Durations(QUICK);
  readonly threadEnds = new Tally<ThreadEnd>(['hung', 'spoiled', 'crashed', 'not_started']);
}
