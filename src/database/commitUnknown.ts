import { DomainError } from '../kernel/errors';

/** `database_unavailable`: the connection broke while a transaction was being committed. It is on disk, or gets there yet, or never will. */
export class CommitUnknown extends DomainError {
  constructor(
    /** Resolves when the transaction is over, whichever way it went: then what it stored is seen, or nothing ever comes of it. Never rejects. */
    readonly over: Promise<void>,
    cause: unknown,
  ) {
    const message = 'the connection to the database broke during the commit, so nobody knows yet whether this was stored; look before it is tried again';
    super('unavailable', 'database_unavailable', message, { cause, retryAfterMs: 1000, isInDoubt: true });
  }
}
