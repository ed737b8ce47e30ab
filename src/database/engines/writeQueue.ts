import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import { withTimeout } from '../../kernel/withTimeout';
import { getCode, TransactionTimeout } from '../translate';
import type { Checkpoints } from './checkpoints';
import type { StatementResult, SqliteConnection } from './sqliteConnection';

/** How transactions share a commit, and how long one may take. */
interface QueueLimits {
  /** The maximum number of transactions that share a commit. */
  readonly maxGroupSize: number;
  /** After this time no further transaction joins a group, in milliseconds. */
  readonly groupMs: number;
  /** Work that is not done after this time is rolled back, in milliseconds. */
  readonly maxWorkMs: number;
}

const LIMITS: QueueLimits = { maxGroupSize: 64, groupMs: 5, maxWorkMs: 30_000 };
const MAX_BEGIN_ATTEMPTS = 100;
const BEGIN_RETRY_INTERVAL_MS = 50;

/** A running transaction, as its work sees it. */
interface Transaction {
  /** Runs one statement in it. Throws the engine's error, or an error once the transaction is over. */
  readonly run: (sql: string, values: readonly unknown[]) => Promise<StatementResult>;
  readonly afterCommit: (action: () => void) => void;
}

/** A transaction that waits or runs. */
interface Job {
  readonly work: (transaction: Transaction) => Promise<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * All writes of the process, one after the other on one connection. Waiting transactions share a commit, because the
 * disk takes longer than the work: each has a savepoint, so one that throws is rolled back alone, and every caller gets
 * its result after the common commit is on disk.
 */
export class WriteQueue {
  private readonly waiting: Job[] = [];
  /** Transactions whose commits need not wait for the disk. */
  private readonly waitingWithoutFsync: Job[] = [];
  /** Settles when no transaction waits or runs; undefined: none does. */
  private running: Promise<void> | undefined;

  constructor(
    private readonly writer: SqliteConnection,
    private readonly checkpoints: Checkpoints,
    private readonly clock: Clock,
    private readonly log: Logger,
    private readonly limits = LIMITS,
  ) {}

  /**
   * Runs the work in a transaction; rejects with its error, or the error of the commit. `skipsFsync`: it resolves when
   * no later commit can be durable without it.
   */
  async transaction<T>(work: (transaction: Transaction) => Promise<T>, skipsFsync = false): Promise<T> {
    return await new Promise<T>((resolve, reject) => {
      (skipsFsync ? this.waitingWithoutFsync : this.waiting).push({
        work,
        resolve: resolve as (value: unknown) => void,
        reject,
      });
      this.running ??= this.runWaiting();
    });
  }

  /** Resolves when no transaction waits or runs. */
  async waitUntilIdle(): Promise<void> {
    while (this.running) await this.running;
  }

  /**
   * Runs groups until no transaction waits. A group without fsync runs first: the durable commit of the next group
   * makes it durable too.
   */
  private async runWaiting(): Promise<void> {
    while (this.waiting.length > 0 || this.waitingWithoutFsync.length > 0) {
      await nextTurn(); // so that all calls that have arrived join the group
      await this.checkpoints.pauseIfLogIsLong();
      if (this.waitingWithoutFsync.length > 0) {
        await this.runGroupWithoutFsync();
        await nextTurn();
      }
      if (this.waiting.length > 0) await this.runGroup(this.waiting);
    }
    this.running = undefined;
  }

  /**
   * Commits without fsync. The log is recovered in order up to the first gap, so a later durable commit implies that
   * these are durable too.
   */
  private async runGroupWithoutFsync(): Promise<void> {
    this.writer.setDurableCommits(false);
    try {
      await this.runGroup(this.waitingWithoutFsync);
    } finally {
      this.writer.setDurableCommits(true);
    }
  }

  /**
   * Takes transactions from `waiting` until the group is complete (takeNextJob), and runs them one after the other
   * inside one SQLite transaction. Commits once, and then settles all callers. If the commit fails, all of them fail.
   */
  private async runGroup(waiting: Job[]): Promise<void> {
    try {
      await beginWriting(this.writer, MAX_BEGIN_ATTEMPTS);
    } catch (error) {
      for (const job of waiting.splice(0)) job.reject(error);
      return;
    }
    const jobs: Job[] = [];
    const settleActions: (() => void)[] = [];
    try {
      const deadline = this.clock.monotonic() + this.limits.groupMs;
      for (let job = waiting.shift(); job; job = this.takeNextJob(waiting, jobs.length, deadline)) {
        jobs.push(job);
        settleActions.push(await this.runJob(job));
      }
      this.writer.run('commit');
    } catch (error) {
      if (this.writer.inTransaction) this.writer.run('rollback');
      for (const job of jobs) job.reject(error);
      return;
    }
    for (const settle of settleActions) settle();
    this.checkpoints.handleCommit();
  }

  /** Takes the next transaction for the group; undefined: none waits, or the group is full or has run for `groupMs`. */
  private takeNextJob(waiting: Job[], groupSize: number, deadline: number): Job | undefined {
    return groupSize < this.limits.maxGroupSize && this.clock.monotonic() < deadline ? waiting.shift() : undefined;
  }

  /**
   * Runs one transaction of the group in a savepoint, so that its failure is rolled back alone. Returns the function
   * that settles its caller after the commit of the group.
   */
  private async runJob(job: Job): Promise<() => void> {
    const actions: (() => void)[] = [];
    let isOpen = true;
    const transaction: Transaction = {
      run: async (sql, values) => {
        if (!isOpen) throw new Error('this transaction is over: its repositories must not be used after its work');
        return this.writer.run(sql, values);
      },
      afterCommit: (action) => actions.push(action),
    };
    this.writer.run('savepoint work');
    try {
      // Work that waits for another transaction would wait forever, and block all writers behind it.
      const value = await withTimeout(job.work(transaction), this.limits.maxWorkMs, () => {
        throw new TransactionTimeout(`a transaction took longer than ${this.limits.maxWorkMs} ms and was rolled back`);
      });
      isOpen = false;
      this.writer.run('release work');
      return () => {
        runAfterCommitActions(actions, this.log);
        job.resolve(value);
      };
    } catch (error) {
      isOpen = false;
      // On a full disk SQLite rolls back everything: then the whole group has failed.
      if (!this.writer.inTransaction) throw error;
      this.writer.run('rollback to work');
      this.writer.run('release work');
      return () => job.reject(error);
    }
  }
}

/** Begins a write transaction. Waits for writes of another process without blocking this one. */
export async function beginWriting(connection: SqliteConnection, maxAttempts: number): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      connection.run('begin immediate');
      return;
    } catch (error) {
      if (!getCode(error).startsWith('SQLITE_BUSY') || attempt === maxAttempts) throw error;
      await new Promise((resolve) => setTimeout(resolve, BEGIN_RETRY_INTERVAL_MS));
    }
  }
}

/** Runs the afterCommit actions. The commit is final, so an action that throws is only logged. */
export function runAfterCommitActions(actions: readonly (() => void)[], log: Logger): void {
  for (const action of actions) {
    try {
      action();
    } catch (error) {
      log.error({ error }, 'database.after_commit_failed');
    }
  }
}
