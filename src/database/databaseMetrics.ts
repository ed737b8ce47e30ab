import { DurationHistogram, SHORT_DURATION_BUCKETS } from '../kernel/durations';
import { DomainError } from '../kernel/errors';
import { Counter } from '../kernel/counter';
import type { Db, PreparedStatement, SqlValue } from './db';

/** The outcome of a transaction; `refused`: its work rejected it, which is not an error of the database. */
type TransactionResult = 'committed' | 'refused' | 'failed';

/** Observes every transaction. */
export interface TransactionObserver {
  /** Called when a transaction is requested. Undefined: not observed. */
  transactionRequested(): ObservedTransaction | undefined;
}

/** An observed transaction. */
interface ObservedTransaction {
  /**
   * Runs something in the context of the requester: the database runs the work of many requesters one after the other.
   */
  runInContext<T>(work: () => T): T;
  /** The transaction is over or on disk. `waitedMs`: how long it waited, in milliseconds. */
  transactionEnded(waitedMs: number, result: TransactionResult): void;
}

/** Measures the database since it was opened. */
export class DatabaseMetrics {
  /** Notified of every transaction; undefined if traces are disabled. */
  observer: TransactionObserver | undefined;
  /** Transactions, from the request until they are on disk or over. */
  readonly transactions = new DurationHistogram(SHORT_DURATION_BUCKETS);
  /** The part of that time that they waited for earlier transactions (SQLite) or for a connection (PostgreSQL). */
  readonly waits = new DurationHistogram(SHORT_DURATION_BUCKETS);
  /** Reads of prepared statements outside of transactions. */
  readonly reads = new DurationHistogram(SHORT_DURATION_BUCKETS);
  readonly results = new Counter<TransactionResult>(['committed', 'refused', 'failed']);
  /** The number of waiting and running transactions. */
  openTransactionCount = 0;

  /**
   * Runs a transaction and records its duration, its result and how long it waited before its work started. `run`
   * starts the transaction and passes its connection to the function that it receives, which runs `work`.
   */
  async measureTransaction<T>(
    run: (work: (db: Db) => Promise<T>) => Promise<T>,
    work: (db: Db) => Promise<T>,
  ): Promise<T> {
    const startedAt = performance.now();
    const observed = this.observer?.transactionRequested();
    let waitedMs: number | undefined;
    let result: TransactionResult = 'committed';
    this.openTransactionCount += 1;
    try {
      return await run((db) => {
        if (waitedMs === undefined) {
          // Only before the first attempt: PostgreSQL may run the work again.
          waitedMs = performance.now() - startedAt;
          this.waits.add(waitedMs);
        }
        return observed ? observed.runInContext(async () => await work(bindToContext(db, observed))) : work(db);
      });
    } catch (error) {
      const isRejected = error instanceof DomainError && error.kind !== 'unavailable' && error.kind !== 'internal';
      result = isRejected ? 'refused' : 'failed';
      throw error;
    } finally {
      this.openTransactionCount -= 1;
      this.results.add(result);
      this.transactions.add(performance.now() - startedAt);
      observed?.transactionEnded(waitedMs ?? performance.now() - startedAt, result);
    }
  }

  /** Returns the same connection, except that the duration of each prepared read is recorded in `reads`. */
  measureReads(db: Db): Db {
    const { reads } = this;
    return {
      dialect: db.dialect,
      afterCommit: (action) => db.afterCommit(action),
      get knex() {
        return db.knex;
      },
      all: async <Row>(statement: PreparedStatement, values: readonly SqlValue[]): Promise<Row[]> => {
        const startedAt = performance.now();
        try {
          return await db.all<Row>(statement, values);
        } finally {
          reads.add(performance.now() - startedAt);
        }
      },
    };
  }
}

/**
 * Returns the same connection, except that its afterCommit actions run in the context of the requester (for example its
 * trace), because the database commits for many requesters at once.
 */
function bindToContext(db: Db, observed: ObservedTransaction): Db {
  return {
    dialect: db.dialect,
    afterCommit: (action) => db.afterCommit(() => observed.runInContext(action)),
    get knex() {
      return db.knex;
    },
    all: async <Row>(statement: PreparedStatement, values: readonly SqlValue[]): Promise<Row[]> =>
      await db.all<Row>(statement, values),
  };
}
