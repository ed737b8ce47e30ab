import { DurationHistogram, SHORT_DURATION_BUCKETS } from '../kernel/durations';
import { Counter } from '../kernel/counter';
import type { CodecErrorCode } from './codecRun';
import type { ThreadEndReason } from './scriptThread';

/**
 * The outcome of a run: `ok`, the code of a CodecError, or `refused` if it did not run because the queue was full or no
 * thread was available.
 */
type RunResult = 'ok' | 'refused' | CodecErrorCode;

/** Counts the runs of the sandbox since the server started. */
export class SandboxCounts {
  readonly runs = new Counter<RunResult>(['ok', 'refused', 'timeout', 'out_of_memory']);
  /** The run times. */
  readonly durations = new DurationHistogram(SHORT_DURATION_BUCKETS);
  /** The wait and run times together. */
  readonly waits = new DurationHistogram(SHORT_DURATION_BUCKETS);
  readonly threadEnds = new Counter<ThreadEndReason>(['timed_out', 'corrupted', 'crashed', 'not_started']);
}
