import { ActiveExecutionStatsRepository } from '../../src/executions/store/activeExecutionStatsRepository';
import { engines, type TestDatabase } from '../support/engines';
import { getPlan } from '../support/queryPlan';

describe.each(engines())('open executions, on $name', (engine) => {
  let test: TestDatabase;
  beforeAll(async () => (test = await engine.createDatabase()));
  afterAll(async () => await test.drop());

  it('are counted with the indexes of open executions alone, however many have ended', async () => {
    const plan = await getPlan(test.database, async (db) => await new ActiveExecutionStatsRepository(db).read());
    for (const index of ['executions_open_', 'executions_deadline']) expect(plan).toContain(index);
    expect(plan).not.toMatch(/SCAN e\b(?! USING)|Seq Scan on executions/);
  });

  it('are zero in an empty database', async () => {
    expect(await new ActiveExecutionStatsRepository(test.database.db).read()).toEqual({
      states: new Map([
        ['enqueued', 0],
        ['in_transit', 0],
        ['delivered', 0],
        ['accepted', 0],
      ]),
      oldestWaiting: undefined,
    });
  });
});
