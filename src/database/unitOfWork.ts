import type { Database } from './database';
import type { Db } from './db';

/** A room's repositories, bound to the plain connection or to one transaction. */
export class UnitOfWork<Repositories> {
  /** Bound to the plain connection: reads, and writes of a single statement. */
  readonly repos: Repositories;

  constructor(
    private readonly database: Database,
    private readonly bind: (db: Db) => Repositories,
  ) {
    this.repos = bind(database.db);
  }

  /** Runs the work with repositories bound to one transaction, as Database.transaction does; `db` is for the repositories of lower rooms. */
  async transaction<T>(work: (repos: Repositories, db: Db) => Promise<T>): Promise<T> {
    return await this.database.transaction(async (db) => await work(this.bind(db), db));
  }
}
