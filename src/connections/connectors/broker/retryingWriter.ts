import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../../kernel/clock';
import { DomainError } from '../../../kernel/errors';
import type { Logger } from '../../../kernel/logger';

/**
 * The outcome of a job. `gone`: the connection was deleted in the meantime. `given_up`: it can never succeed, which is
 * already logged.
 */
export type WriteOutcome = 'done' | 'gone' | 'given_up';

/** The options of RetryingWriter. */
interface RetryingWriterOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Fields that are added to every log line. */
  readonly fields: object;
  /** The prefix of the log events `<component>.write_retry` and `<component>.write_failed`. */
  readonly component: string;
  /** The interval between two attempts, milliseconds; default 1 s. */
  readonly retryMs?: number | undefined;
  /** Called whenever `isStalled` changed; must not throw. */
  readonly onStalled: () => void;
}

const RETRY_MS = 1000;
/** The database has been unavailable for this time: it is not just busy. */
const STALLED_MS = 5000;
const MAX_ATTEMPTS = 5;

/** How long a job has waited for the database. */
interface DatabaseWait {
  /** When the job first found the database unavailable, on the monotonic clock. */
  startedAt: number | undefined;
  /** Whether the job counts as stalled. */
  isStalled: boolean;
}

/**
 * Stores received messages. While the database is unavailable, a job is retried until its signal aborts. A job that
 * fails for any other reason is tried five times and then given up, because one message must not block all later ones.
 * Use one instance per connection: it logs its failures only each time their number has doubled.
 */
export class RetryingWriter {
  /** The number of consecutive attempts that found the database unavailable. */
  private failureCount = 0;
  private givenUpCount = 0;
  /** The number of jobs that have waited for the database for at least STALLED_MS. */
  private stalledCount = 0;

  constructor(private readonly options: RetryingWriterOptions) {}

  /** Whether a job has been waiting for the database for some seconds. */
  get isStalled(): boolean {
    return this.stalledCount > 0;
  }

  /** Runs the job, with retries if those may help. Rejects only if the signal aborted before it was done. */
  async run(signal: AbortSignal, job: () => Promise<void>): Promise<WriteOutcome> {
    const wait: DatabaseWait = { startedAt: undefined, isStalled: false };
    try {
      return await this.retryUntilDone(signal, job, wait);
    } finally {
      if (wait.isStalled) this.changeStalledCount(-1);
    }
  }

  /**
   * Tries the job until it is done, or until MAX_ATTEMPTS attempts failed for another reason than an unavailable
   * database.
   */
  private async retryUntilDone(
    signal: AbortSignal,
    job: () => Promise<void>,
    wait: DatabaseWait,
  ): Promise<WriteOutcome> {
    for (let failedAttempts = 0; ;) {
      signal.throwIfAborted();
      try {
        await job();
        this.failureCount = 0;
        return 'done';
      } catch (err) {
        if (err instanceof DomainError && err.kind === 'not_found') return 'gone';
        if (isTemporary(err)) {
          this.recordUnavailable(err, wait);
        } else {
          failedAttempts += 1;
          if (failedAttempts >= MAX_ATTEMPTS) return this.giveUp(err);
        }
      }
      await sleep(this.options.retryMs ?? RETRY_MS, undefined, { signal });
    }
  }

  /** Records an attempt that found the database unavailable, and counts the job as stalled after some seconds. */
  private recordUnavailable(err: unknown, wait: DatabaseWait): void {
    const now = this.options.clock.monotonic();
    wait.startedAt ??= now;
    if (!wait.isStalled && now - wait.startedAt >= STALLED_MS) {
      wait.isStalled = true;
      this.changeStalledCount(1);
    }
    this.failureCount += 1;
    if (isPowerOfTwo(this.failureCount))
      this.options.log.error(
        { ...this.options.fields, failures: this.failureCount, err },
        `${this.options.component}.write_retry`,
      );
  }

  /** Changes the number of stalled jobs, and calls `onStalled` if `isStalled` changed. */
  private changeStalledCount(change: 1 | -1): void {
    const wasStalled = this.isStalled;
    this.stalledCount += change;
    if (this.isStalled !== wasStalled) this.options.onStalled();
  }

  /** Counts and logs a job that can never succeed. */
  private giveUp(err: unknown): 'given_up' {
    this.givenUpCount += 1;
    if (isPowerOfTwo(this.givenUpCount))
      this.options.log.error(
        { ...this.options.fields, given_up: this.givenUpCount, tries: MAX_ATTEMPTS, err },
        `${this.options.component}.write_failed`,
      );
    return 'given_up';
  }
}

/** Returns whether the database is unavailable, full or busy, which is temporary. */
function isTemporary(err: unknown): boolean {
  return err instanceof DomainError && err.kind === 'unavailable';
}

/** Returns whether a count has just doubled, so that it is logged again. */
function isPowerOfTwo(count: number): boolean {
  return Number.isInteger(Math.log2(count));
}
