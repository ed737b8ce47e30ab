import { AsyncLocalStorage } from 'node:async_hooks';
import type { Db } from './db';

/** The transaction that other transactions join, and the first failure of one of these. */
interface SharedTransaction {
  /**
   * Undefined once the transaction is over: work that was started inside it and still runs uses the plain connection
   * again.
   */
  db: Db | undefined;
  firstFailure: { readonly error: unknown } | undefined;
}

/**
 * Lets several transactions share one commit without knowing it: inside `run`, each transaction and each statement of
 * the work becomes a part of the transaction of `db`. The shared transaction follows the asynchronous calls of the
 * work.
 */
export class JoinedTransactions {
  private readonly currentShared = new AsyncLocalStorage<SharedTransaction>();

  /**
   * Runs the work so that its transactions join the transaction of `db`. Throws what the work throws. If one of the
   * joined transactions threw and the work caught that error, it is thrown too, because what the failed transaction did
   * must not be committed.
   */
  async run<T>(db: Db, work: () => Promise<T>): Promise<T> {
    const shared: SharedTransaction = { db, firstFailure: undefined };
    try {
      const result = await this.currentShared.run(shared, work);
      if (shared.firstFailure) throw shared.firstFailure.error;
      return result;
    } finally {
      shared.db = undefined;
    }
  }

  /**
   * Runs the work of a transaction inside the shared transaction, and returns its result; undefined: there is no shared
   * transaction, so the caller must start its own.
   */
  join<T>(work: (db: Db) => Promise<T>): Promise<T> | undefined {
    const shared = this.currentShared.getStore();
    return shared?.db && runAsPart(shared, shared.db, work);
  }

  /** Returns a connection that uses the shared transaction inside `run`, and `plainDb` outside of it. */
  wrapDb(plainDb: Db): Db {
    const current = (): Db => this.currentShared.getStore()?.db ?? plainDb;
    return {
      dialect: plainDb.dialect,
      afterCommit: (action) => current().afterCommit(action),
      get knex() {
        return current().knex;
      },
      all: (statement, values) => current().all(statement, values),
    };
  }
}

/**
 * Runs the work as a part of the shared transaction and records its error, so that the shared transaction fails too.
 */
async function runAsPart<T>(shared: SharedTransaction, db: Db, work: (db: Db) => Promise<T>): Promise<T> {
  try {
    return await work(db);
  } catch (error) {
    shared.firstFailure ??= { error };
    throw error;
  }
}
