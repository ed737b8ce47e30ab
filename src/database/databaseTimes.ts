import { Durations, QUICK } from '../kernel/durations';
import { DomainError } from '../kernel/errors';
import { Tally } from '../kernel/tally';
import type { Db, HotStatement, SqlValue } from './db';

/** How a transaction ended; `refused`: its work did not want it, which is no fault of the database. */
export type TransactionResult = 'committed' | 'refused' | 'failed';

/** Who wants to know of every transaction, one by one. */
export interface TransactionObserver {
  /** A transaction is asked for. Undefined: its end is of no interest. */
  asked(): ObservedTransaction | undefined;
}

/** One transaction that is observed. */
export interface ObservedTransaction {
  /** Runs something on behalf of who asked for it: the database runs the work of many after each other. */
  onBehalf<T>(work: () => T): T;
  /** It is on disk or over; what it waited of that time, in milliseconds. */
  ended(waitedMs: number, result: TransactionResult): void;
}

/** What the database took its time for since it was opened. */
export class DatabaseTimes {
  /** Told of every transaction; nobody where traces are off. */
  observer: TransactionObserver | undefined;
  /** Transactions, from when they were asked for until they are on disk or over. */
  readonly transactions = new Durations(QUICK);
  /** What they waited of that: for those before them (SQLite), or for a connection (PostgreSQL). */
  readonly waits = new Durations(QUICK);
  /** Reads outside of transactions, of prepared statements. */
  readonly reads = new Durations(QUICK);
  readonly results = new Tally<TransactionResult>(['committed', 'refused', 'failed']);
  /** Transactions that wait or run now. */
  open = 0;

  /** Runs a transaction by `run`, which hands `work` its connection, and takes its time. */
  async transaction<T>(run: (work: (db: Db) => Promise<T>) => Promise<T>, work: (db: Db) => Promise<T>): Promise<T> {
    const since = performance.now();
    const observed = this.observer?.asked();
    let waited: number | undefined;
    let result: TransactionResult = 'committed';
    this.open += 1;
    try {
      return await run((db) => {
        if (waited === undefined) this.waits.add((waited = performance.now() - since)); // it may run again
        return observed ? observed.onBehalf(async () => await work(behalfOf(db, observed))) : work(db);
      });
    } catch (error) {
      const isRefusal = error instanceof DomainError && error.kind !== 'unavailable' && error.kind !== 'internal';
      result = isRefusal ? 'refused' : 'failed';
      throw error;
    } finally {
      this.open -= 1;
      this.results.add(result);
      this.transactions.add(performance.now() - since);
      observed?.ended(waited ?? performance.now() - since, result);
    }
  }

  /** The same connection, whose reads are timed. */
  timed(db: Db): Db {
    const { reads } = this;
    return {
      dialect: db.dialect,
      afterCommit: (action) => db.afterCommit(action),
      get knex() {
        return db.knex;
      },
      all: async <Row>(statement: HotStatement, values: readonly SqlValue[]): Promise<Row[]> => {
        const since = performance.now();
        try {
          return await db.all<Row>(statement, values);
        } finally {
          reads.add(performance.now() - since);
        }
      },
    };
  }
}

/** The same connection; what waits for its commit runs on behalf of who asked for the transaction. */
function behalfOf(db: Db, observed: ObservedTransaction): Db {
  return {
    dialect: db.dialect,
    afterCommit: (action) => db.afterCommit(() => observed.onBehalf(action)),
    get knex() {
      return db.knex;
    },
    all: async <Row>(statement: HotStatement, values: readonly SqlValue[]): Promise<Row[]> => await db.all<Row>(statement, values),
  };
}
