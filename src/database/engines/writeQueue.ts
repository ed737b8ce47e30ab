import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import { codeOf, TransactionTimeout } from '../translate';
import type { Checkpoints } from './checkpoints';
import type { Outcome, SqliteConnection } from './sqliteConnection';

/** How far transactions share a commit, and how long one may take. */
export interface QueueLimits {
  readonly mostInGroup: number;
  /** No further transaction joins a group after this, in milliseconds. */
  readonly groupMs: number;
  /** Work that is not done by then is rolled back, in milliseconds. */
  readonly longestWorkMs: number;
}

const LIMITS: QueueLimits = { mostInGroup: 64, groupMs: 5, longestWorkMs: 30_000 };
const BEGIN_TRIES = 100;

/** A running transaction as its work sees it. */
export interface Transaction {
  /** Runs one statement in it. Throws the engine's error, or once the transaction is over. */
  readonly run: (sql: string, values: readonly unknown[]) => Promise<Outcome>;
  readonly afterCommit: (action: () => void) => void;
}

interface Job {
  readonly work: (transaction: Transaction) => Promise<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * All writes of the process, one after the other on one connection. Those that wait share a commit, because the
 * disk takes longer than the work: each has a savepoint, so one that throws is rolled back alone, and every answer is given
 * once the common commit is on disk.
 */
export class WriteQueue {
  private readonly waiting: Job[] = [];
  /** Those whose commits need not wait for the disk. */
  private readonly ahead: Job[] = [];
  private draining: Promise<void> | undefined;

  constructor(
    private readonly writer: SqliteConnection,
    private readonly checkpoints: Checkpoints,
    private readonly clock: Clock,
    private readonly log: Logger,
    private readonly limits = LIMITS,
  ) {}

  /** Runs the work in a transaction; rejects with its error, or the commit's. `isAhead`: it resolves when whatever is committed later cannot be on disk without it. */
  async transaction<T>(work: (transaction: Transaction) => Promise<T>, isAhead = false): Promise<T> {
    return await new Promise<T>((resolve, reject) => {
      (isAhead ? this.ahead : this.waiting).push({ work, resolve: resolve as (value: unknown) => void, reject });
      this.draining ??= this.drain();
    });
  }

  /** Resolves when nothing waits or runs. */
  async idle(): Promise<void> {
    while (this.draining) await this.draining;
  }

  private async drain(): Promise<void> {
    while (this.waiting.length > 0 || this.ahead.length > 0) {
      await turn();
      await this.checkpoints.pause();
      if (this.ahead.length > 0) {
        await this.groupAhead();
        await turn();
      }
      if (this.waiting.length > 0) await this.group(this.waiting);
    }
    this.draining = undefined;
  }

  /**
   * The commits of these reach the log without waiting for the disk. The log is read back in its order and ends where something is
   * missing: whatever is committed later is never there without them.
   */
  private async groupAhead(): Promise<void> {
    this.writer.setWaits(false);
    try {
      await this.group(this.ahead);
    } finally {
      this.writer.setWaits(true);
    }
  }

  private async group(waiting: Job[]): Promise<void> {
    try {
      await beginWriting(this.writer, BEGIN_TRIES);
    } catch (error) {
      for (const job of waiting.splice(0)) job.reject(error);
      return;
    }
    const jobs: Job[] = [];
    const settlements: (() => void)[] = [];
    try {
      const end = this.clock.monotonic() + this.limits.groupMs;
      for (let job = waiting.shift(); job; job = this.next(waiting, jobs.length, end)) {
        jobs.push(job);
        settlements.push(await this.perform(job));
      }
      this.writer.run('commit');
    } catch (error) {
      if (this.writer.inTransaction) this.writer.run('rollback');
      for (const job of jobs) job.reject(error);
      return;
    }
    for (const settle of settlements) settle();
    this.checkpoints.committed();
  }

  private next(waiting: Job[], done: number, end: number): Job | undefined {
    return done < this.limits.mostInGroup && this.clock.monotonic() < end ? waiting.shift() : undefined;
  }

  /** Runs one job inside the group and returns how to answer it after the commit. */
  private async perform(job: Job): Promise<() => void> {
    const actions: (() => void)[] = [];
    let open = true;
    const transaction: Transaction = {
      run: async (sql, values) => {
        if (!open) throw new Error('this transaction is over: its repositories may not be used beyond the work they were given to');
        return this.writer.run(sql, values);
      },
      afterCommit: (action) => actions.push(action),
    };
    this.writer.run('savepoint work');
    try {
      const value = await inTime(job.work(transaction), this.limits.longestWorkMs);
      open = false;
      this.writer.run('release work');
      return () => {
        runAll(actions, this.log);
        job.resolve(value);
      };
    } catch (error) {
      open = false;
      // A full disk makes SQLite roll back everything: then the whole group has failed.
      if (!this.writer.inTransaction) throw error;
      this.writer.run('rollback to work');
      this.writer.run('release work');
      return () => job.reject(error);
    }
  }
}

/** One turn of the event loop, so that all calls that have arrived by now join the group. */
async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

/** Begins a transaction that writes. Another process may be writing: waits for it without blocking this one. */
export async function beginWriting(connection: SqliteConnection, tries: number): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      connection.run('begin immediate');
      return;
    } catch (error) {
      if (!codeOf(error).startsWith('SQLITE_BUSY') || attempt === tries) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** Runs what waited for the commit. The commit stands, so an action that throws is only logged. */
export function runAll(actions: readonly (() => void)[], log: Logger): void {
  for (const action of actions) {
    try {
      action();
    } catch (error) {
      log.error({ error }, 'database.after_commit_failed');
    }
  }
}

/** Work that waits for another transaction would wait for ever, and all writers behind it. */
async function inTime<T>(work: Promise<T>, limitMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TransactionTimeout(`a transaction took longer than ${limitMs} ms and was rolled back`)), limitMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
