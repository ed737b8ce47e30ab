import { setTimeout as sleep } from 'node:timers/promises';
import { DomainError } from '../../../kernel/errors';
import type { Logger } from '../../../kernel/logger';

/** What became of a job: `gone`, the connection was deleted meanwhile; `given_up`, it never can be done, which is logged already. */
export type StoringOutcome = 'done' | 'gone' | 'given_up';

/** What storing needs. */
export interface StoringOptions {
  readonly log: Logger;
  /** Of every line of the log. */
  readonly fields: object;
  /** Before the events of the log: `<component>.storing_fails` and `<component>.storing_given_up`. */
  readonly component: string;
  /** Between two attempts, milliseconds; 1 s unless given. */
  readonly retryMs?: number | undefined;
}

const RETRY_MS = 1000;
const TRIES = 5;

/**
 * Stores what came over a link. While the database is away a job is tried for as long as its signal lives; what fails for any other reason is
 * tried five times and given up, for nothing that a device sends may stop all that comes behind it. One for each link: it logs its
 * failures only when they have doubled.
 */
export class Storing {
  /** How many attempts in a row found the database away. */
  private failures = 0;
  private givenUp = 0;

  constructor(private readonly options: StoringOptions) {}

  /** Does the job, again where that may help. Rejects only if the signal aborted before it was done. */
  async run(signal: AbortSignal, job: () => Promise<void>): Promise<StoringOutcome> {
    for (let tries = 1; ; ) {
      signal.throwIfAborted();
      try {
        await job();
        this.failures = 0;
        return 'done';
      } catch (err) {
        if (err instanceof DomainError && err.kind === 'not_found') return 'gone';
        if (isPassing(err)) this.fails(err);
        else if (tries++ >= TRIES) return this.giveUp(err);
      }
      await sleep(this.options.retryMs ?? RETRY_MS, undefined, { signal });
    }
  }

  private fails(err: unknown): void {
    this.failures += 1;
    if (isPowerOfTwo(this.failures)) this.options.log.error({ ...this.options.fields, failures: this.failures, err }, `${this.options.component}.storing_fails`);
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
