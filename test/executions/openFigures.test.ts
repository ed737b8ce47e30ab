import { OpenFiguresRepository } from '../../src/executions/store/openFiguresRepository';
import { engines, type TestDatabase } from '../support/engines';
import { planOf } from '../support/planOf';

describe.each(engines())('what has not ended, on $name', (engine) => {
  let test: TestDatabase;
  beforeAll(async () => (test = await engine.createDatabase()));
  afterAll(async () => await test.drop());

  it('is counted by the indexes of open executions alone, however many have ended', async () => {
    const plan = await planOf(test.database, async (db) => await new OpenFiguresRepository(db).read());
    for (const index of ['executions_open_', 'executions_deadline']) expect(plan).toContain(index);
    expect(plan).not.toMatch(/SCAN e\b(?! USING)|Seq Scan on executions/);
  });

  it('is nothing where there is nothing', async () => {
    expect(await new OpenFiguresRepository(test.database.db).read()).toEqual({ states: new Map([['enqueued', 0], ['in_transit', 0], ['delivered', 0], ['accepted', 0]]), oldestWaiting: undefined });
  });
});
