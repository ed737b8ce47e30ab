import { setTimeout as pause } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Logger } from '../../kernel/logger';
import { codeOf } from '../translate';

/** A commit was sent, and no answer came that can be believed. */
export class LostCommit extends Error {
  constructor(
    /** The server's process that the commit went to. */
    readonly process: number,
    cause: unknown,
  ) {
    super('the answer to a commit was lost', { cause });
  }
}

// What a statement did wrong, a lock or a constraint that is looked at in the end. What ends the connection or the server says nothing.
const REFUSED = /^(2[2-8]...|40(?!003)...|4[24]...|55...|P0...)$/;

/** Whether an error tells for sure that the commit was none. */
export function isRefusal(error: unknown): boolean {
  return REFUSED.test(codeOf(error));
}

const BETWEEN_LOOKS_MS = 100;
/** PostgreSQL by itself ends a transaction that has heard nothing for 30 seconds (postgresClient). */
const LONGEST_MS = 40_000;

/** Looks when transactions are over whose commit was not answered. */
export class LostCommits {
  private readonly closing = new AbortController();

  constructor(
    private readonly knex: Knex,
    private readonly log: Logger,
  ) {}

  /** Resolves when the transaction of that process is over, at the latest after 40 seconds. Never rejects. */
  async over(process: number): Promise<void> {
    const end = AbortSignal.any([this.closing.signal, AbortSignal.timeout(LONGEST_MS)]);
    let open: readonly string[] | undefined;
    while (!end.aborted) {
      const [before, now] = [open, await this.transactions(process)];
      // Another connection may have got the number of the process meanwhile: its transactions are none of this.
      open = now && before ? now.filter((transaction) => before.includes(transaction)) : (now ?? before);
      if (open?.length === 0) break;
      await pause(BETWEEN_LOOKS_MS, undefined, { ref: false });
    }
    this.log.info({ process, is_over: open?.length === 0 }, 'database.lost_commit');
  }

  /** Looks no more. */
  close(): void {
    this.closing.abort();
  }

  /** Those that the process has underway: each holds a lock on its own number until others see what it stored. Undefined: the database does not answer. */
  private async transactions(process: number): Promise<readonly string[] | undefined> {
    try {
      const { rows } = (await this.knex.raw("select l.transactionid::text as id from pg_locks l where l.pid = ? and l.locktype = 'transactionid' and l.mode = 'ExclusiveLock'", [process])) as { rows: { id: string }[] };
      return rows.map(({ id }) => id);
    } catch (error) {
      this.log.debug({ err: error }, 'database.lost_commit_unknown');
      return undefined;
    }
  }
}
