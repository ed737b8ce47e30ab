import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../../kernel/clock';
import { DomainError } from '../../../kernel/errors';
import type { Logger } from '../../../kernel/logger';

/** What became of a job: `gone`, the connection was deleted meanwhile; `given_up`, it never can be done, which is logged already. */
export type StoringOutcome = 'done' | 'gone' | 'given_up';

/** What storing needs. */
export interface StoringOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Of every line of the log. */
  readonly fields: object;
  /** Before the events of the log: `<component>.storing_fails` and `<component>.storing_given_up`. */
  readonly component: string;
  /** Between two attempts, milliseconds; 1 s unless given. */
  readonly retryMs?: number | undefined;
  /** Called whenever `isStalled` changed; may not throw. */
  readonly onStalled: () => void;
}

const RETRY_MS = 1000;
/** The database was away for so long: not just busy. */
const STALLED_MS = 5000;
const TRIES = 5;

/** Since when a job finds the database away, by the monotonic clock, and whether it is counted for that. */
interface Wait {
  since: number | undefined;
  isStalled: boolean;
}

/**
 * Stores what came over a link. While the database is away a job is tried for as long as its signal lives; what fails for any other reason is
 * tried five times and given up, for nothing that a device sends may stop all that comes behind it. One for each link: it logs its
 * failures only when they have doubled.
 */
export class Storing {
  /** How many attempts in a row found the database away. */
  private failures = 0;
  private givenUp = 0;
  /** How many jobs found the database away for so long that somebody should know. */
  private stalled = 0;

  constructor(private readonly options: StoringOptions) {}

  /** Whether something has waited for the database for some seconds. */
  get isStalled(): boolean {
    return this.stalled > 0;
  }

  /** Does the job, again where that may help. Rejects only if the signal aborted before it was done. */
  async run(signal: AbortSignal, job: () => Promise<void>): Promise<StoringOutcome> {
    const wait: Wait = { since: undefined, isStalled: false };
    try {
      return await this.insist(signal, job, wait);
    } finally {
      if (wait.isStalled) this.count(-1);
    }
  }

  private async insist(signal: AbortSignal, job: () => Promise<void>, wait: Wait): Promise<StoringOutcome> {
    for (let tries = 1; ; ) {
      signal.throwIfAborted();
      try {
        await job();
        this.failures = 0;
        return 'done';
      } catch (err) {
        if (err instanceof DomainError && err.kind === 'not_found') return 'gone';
        if (isPassing(err)) this.fails(err, wait);
        else if (tries++ >= TRIES) return this.giveUp(err);
      }
      await sleep(this.options.retryMs ?? RETRY_MS, undefined, { signal });
    }
  }

  private fails(err: unknown, wait: Wait): void {
    const now = this.options.clock.monotonic();
    wait.since ??= now;
    if (!wait.isStalled && now - wait.since >= STALLED_MS) {
      wait.isStalled = true;
      this.count(1);
    }
    this.failures += 1;
    if (isPowerOfTwo(this.failures)) this.options.log.error({ ...this.options.fields, failures: this.failures, err }, `${this.options.component}.storing_fails`);
  }

  private count(change: 1 | -1): void {
    const wasStalled = this.isStalled;
    this.stalled += change;
    if (this.isStalled !== wasStalled) this.options.onStalled();
  }

  private giveUp(err: unknown): 'given_up' {
    this.givenUp += 1;
    if (isPowerOfTwo(this.givenUp)) this.options.log.error({ ...this.options.fields, given_up: this.givenUp, tries: TRIES, err }, `${this.options.component}.storing_given_up`);
    return 'given_up';
  }
}

/** The database is away, full or busy: it will be back. */
function isPassing(err: unknown): boolean {
  return err instanceof DomainError && err.kind === 'unavailable';
}

function isPowerOfTwo(count: number): boolean {
  return Number.isInteger(Math.log2(count));
}
