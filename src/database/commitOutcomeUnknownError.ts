import { DomainError } from '../kernel/errors';

/**
 * `database_unavailable`: the connection broke during a commit. The transaction may be on disk, may still be committed,
 * or may be lost.
 */
export class CommitOutcomeUnknownError extends DomainError {
  constructor(
    /**
     * Resolves when the transaction is over, committed or not: from then on its data is visible or never will be. Also
     * resolves after 40 seconds and when the database is closed, although that is unknown then. Never rejects.
     */
    readonly transactionEnded: Promise<void>,
    cause: unknown,
  ) {
    const message =
      'the connection to the database broke during the commit, so it is unknown whether the change was stored: check it before you try again';
    super('unavailable', 'database_unavailable', message, { cause, retryAfterMs: 1000, isInDoubt: true });
  }
}
