import type { Knex } from 'knex';
import type { Database, Db, SqlValue } from '../../src/database';

/**
 * Returns the plans of all statements that the work runs. The database is so small that PostgreSQL must be forced to
 * choose an index.
 */
export async function getPlan(database: Database, work: (db: Db) => Promise<unknown>): Promise<string> {
  return await database.transaction(async (db) => {
    if (db.dialect.name === 'postgres') await db.knex.raw('set local enable_seqscan = off');
    const statements: { sql: string; bindings?: readonly SqlValue[] }[] = [];
    const note = (statement: { sql: string; bindings?: readonly SqlValue[] }): void => void statements.push(statement);
    db.knex.on('query', note);
    await work({
      knex: db.knex,
      dialect: db.dialect,
      afterCommit: () => {},
      all: async (statement, values) => {
        const sql = statement.sql(db.dialect);
        // as the engine runs it
        note({ sql: db.dialect.name === 'sqlite' ? sql.replaceAll('?', '+?') : sql, bindings: values });
        return [];
      },
    });
    db.knex.removeListener('query', note);
    const explain = db.dialect.name === 'sqlite' ? 'explain query plan' : 'explain';
    const plans: unknown[] = [];
    for (const { sql, bindings = [] } of statements)
      plans.push(await db.knex.raw(`${explain} ${sql.replaceAll(/\$\d+/g, '?')}`, [...bindings] as Knex.Value[]));
    return JSON.stringify(plans);
  });
}
