import { setTimeout as pause } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Logger } from '../../kernel/logger';
import { getCode } from '../translate';

/** A commit was sent, but no reliable response arrived. */
export class UnknownCommitError extends Error {
  constructor(
    /** The backend process that received the commit. */
    readonly backendPid: number,
    cause: unknown,
  ) {
    super('the response to a commit was lost', { cause });
  }
}

// SQLSTATE codes of errors of a statement: a lock, or a deferred constraint. An error that closes the connection or the
// server proves nothing, and neither does 40003 (statement completion unknown).
const REJECTED_CODE = /^(2[2-8]...|40(?!003)...|4[24]...|55...|P0...)$/;

/** Whether an error proves that the commit failed. */
export function isCommitRejected(error: unknown): boolean {
  return REJECTED_CODE.test(getCode(error));
}

const POLL_INTERVAL_MS = 100;
/** PostgreSQL terminates a transaction that was idle for 30 seconds (postgresClient). */
const MAX_WAIT_MS = 40_000;

/** Finds out when transactions with an unknown commit outcome are over. */
export class UnknownCommitTracker {
  private readonly closing = new AbortController();

  constructor(
    private readonly knex: Knex,
    private readonly log: Logger,
  ) {}

  /**
   * Resolves when the transaction of that backend process is committed or rolled back, at the latest after 40 seconds
   * or when `close` is called. Polls the database, because only PostgreSQL knows. Never rejects.
   */
  async waitUntilEnded(backendPid: number): Promise<void> {
    const stopSignal = AbortSignal.any([this.closing.signal, AbortSignal.timeout(MAX_WAIT_MS)]);
    let candidates: readonly string[] | undefined; // the ids that the transaction may have; undefined: not known yet
    while (!stopSignal.aborted) {
      const activeNow = await this.findActiveTransactions(backendPid);
      // Only transactions that were active in every check matter: a new one belongs to another connection, which has
      // the same process id.
      if (activeNow && candidates) candidates = activeNow.filter((id) => candidates?.includes(id));
      else candidates ??= activeNow; // undefined: the database did not respond
      if (candidates?.length === 0) break; // the transaction is over
      await pause(POLL_INTERVAL_MS, undefined, { ref: false });
    }
    this.log.info({ process: backendPid, is_over: candidates?.length === 0 }, 'database.commit_outcome_unknown');
  }

  /** Stops checking. */
  close(): void {
    this.closing.abort();
  }

  /**
   * Returns the ids of the active transactions of the backend process: each one holds a lock on its own id until its
   * data is visible. Undefined: the database does not respond.
   */
  private async findActiveTransactions(backendPid: number): Promise<readonly string[] | undefined> {
    try {
      const { rows } = (await this.knex.raw(
        "select l.transactionid::text as id from pg_locks l where l.pid = ? and l.locktype = 'transactionid' and l.mode = 'ExclusiveLock'",
        [backendPid],
      )) as { rows: { id: string }[] };
      return rows.map(({ id }) => id);
    } catch (error) {
      this.log.debug({ err: error }, 'database.commit_outcome_check_failed');
      return undefined;
    }
  }
}
