import type { Database } from './database';
import type { Db } from './db';

/** A module's repositories, bound to the plain connection or to one transaction. */
export class UnitOfWork<Repositories> {
  /** Bound to the plain connection: for reads, and writes of a single statement. */
  readonly repos: Repositories;

  constructor(
    private readonly database: Database,
    private readonly bind: (db: Db) => Repositories,
  ) {
    this.repos = bind(database.db);
  }

  /**
   * Runs the work with repositories bound to one transaction, like Database.transaction; `db` is for the repositories
   * of lower-level modules.
   */
  async transaction<T>(work: (repos: Repositories, db: Db) => Promise<T>): Promise<T> {
    return await this.database.transaction(async (db) => await work(this.bind(db), db));
  }
}
