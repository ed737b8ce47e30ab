import type { HotStatement } from '../../src/database';
import { PROGRESS_COLUMNS } from '../../src/executions/store/executionRow';
import { logStatement, MOST_READ, readStatement, statements, updateStatement } from '../../src/executions/store/executionStatements';
import { openStatements } from '../../src/executions/store/openStatements';
import { engines, type TestDatabase } from '../support/engines';

const all: readonly HotStatement[] = [...Object.values(statements), ...Object.values(openStatements), ...[1, 2, 50, MOST_READ].map((ids) => readStatement(ids).statement), updateStatement(PROGRESS_COLUMNS), logStatement(1)];

// What SQLite says of a statement that reads more than it is about: a whole table, or all of an organization. The indexes `open` hold what has not ended.
const GROWS = /^SCAN (?!CONSTANT|.* INDEX executions_open_)|\(organization_id=\?\)$/;

describe('how SQLite carries out the statements of executions', () => {
  let db: TestDatabase;

  beforeAll(async () => {
    db = await (engines()[0] as ReturnType<typeof engines>[0]).createDatabase();
  });

  afterAll(async () => await db.drop());

  it.each(all.map((statement) => [statement.name, statement] as const))('%s reads no more with a longer past', async (_, statement) => {
    const sql = statement.sql(db.database.dialect);
    const values = Array.from(sql.matchAll(/\?/g), () => 'x');
    const plan = await db.database.db.all<{ detail: string }>({ name: 'plan', sql: () => `explain query plan ${sql}` }, values);
    expect(plan.map(({ detail }) => detail).filter((detail) => GROWS.test(detail))).toEqual([]);
  });
});
