import type { PreparedStatement } from '../../src/database';
import { PROGRESS_COLUMNS } from '../../src/executions/store/executionRow';
import {
  getLogStatement,
  READ_BATCH_SIZE,
  getReadStatement,
  statements,
  getUpdateStatement,
} from '../../src/executions/store/executionStatements';
import { openStatements } from '../../src/executions/store/openStatements';
import { engines, type TestDatabase } from '../support/engines';

const all: readonly PreparedStatement[] = [
  ...Object.values(statements),
  ...Object.values(openStatements),
  ...[1, 2, 50, READ_BATCH_SIZE].map((ids) => getReadStatement(ids).statement),
  getUpdateStatement(PROGRESS_COLUMNS),
  getLogStatement(1),
];

// What SQLite reports for a statement that reads more than it needs: a complete table, or all of an organization. The
// indexes `open` contain what has not ended.
const GROWS = /^SCAN (?!CONSTANT|.* INDEX executions_open_)|\(organization_id=\?\)$/;

describe('the query plans of the statements of executions on SQLite', () => {
  let db: TestDatabase;

  beforeAll(async () => {
    db = await (engines()[0] as ReturnType<typeof engines>[0]).createDatabase();
  });

  afterAll(async () => await db.drop());

  it.each(all.map((statement) => [statement.name, statement] as const))(
    '%s reads no more with a longer history',
    async (_, statement) => {
      const sql = statement.sql(db.database.dialect);
      const values = Array.from(sql.matchAll(/\?/g), () => 'x');
      const plan = await db.database.db.all<{ detail: string }>(
        { name: 'plan', sql: () => `explain query plan ${sql}` },
        values,
      );
      expect(plan.map(({ detail }) => detail).filter((detail) => GROWS.test(detail))).toEqual([]);
    },
  );
});
