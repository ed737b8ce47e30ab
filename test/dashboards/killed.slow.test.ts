import { ContentService, createDashboardRepositories, DashboardService } from '../../src/dashboards';
import { UnitOfWork } from '../../src/database';
import { ChangeFeed } from '../../src/kernel/changeFeed';
import { systemClock } from '../../src/kernel/clock';
import { Cursors } from '../../src/kernel/pages';
import { Child } from '../support/child';
import { engines, type TestDatabase } from '../support/engines';

const VIEWER = { organizationId: 'o', userId: 'u' };
const MAX_STATEMENTS = 40;

/** Sets content, and stops before the statement with the given number, counted inside of the transaction. */
const PROGRAM = `
  import { writeSync } from 'node:fs';
  import { ContentService, createDashboardRepositories } from './src/dashboards';
  import { openDatabase, UnitOfWork } from './src/database';
  import { ChangeFeed } from './src/kernel/changeFeed';
  import { systemClock } from './src/kernel/clock';
  import { silentLogger } from './src/kernel/logger';
  import { Cursors } from './src/kernel/pages';
  const [url, dataDir, id, etag, content, stopAt] = process.argv.slice(2) as string[];
  async function main(): Promise<void> {
    const database = await openDatabase({ url: url!, dataDir: dataDir!, log: silentLogger, poolSize: 2 });
    let count = 0;
    const work = new UnitOfWork(database, (db) => {
      if (db !== database.db)
        db.knex.on('query', () => {
          count += 1;
          if (count !== Number(stopAt)) return;
          writeSync(1, 'stopped\\n');
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
        });
      return createDashboardRepositories(db);
    });
    const cursors = new Cursors(Buffer.alloc(32));
    const service = new ContentService({ work, clock: systemClock, cursors, feed: new ChangeFeed() });
    await service.set(${JSON.stringify(VIEWER)}, id!, JSON.parse(content!), { etag: etag!, message: 'new' });
    writeSync(1, 'stored\\n');
    setInterval(() => {}, 1000);
  }
  void main();
`;

describe.each(engines())('a server that is killed while it sets content, on $name', (engine) => {
  let test: TestDatabase;
  beforeAll(async () => {
    test = await engine.createDatabase();
    const { knex } = test.database.db;
    await knex('organizations').insert({ id: 'o', name: 'o', name_folded: 'o', created_at: 0, updated_at: 0 });
  });
  afterAll(async () => await test.drop());

  it('has stored the old content or the new one', async () => {
    const work = new UnitOfWork(test.database, createDashboardRepositories);
    const cursors = new Cursors(Buffer.alloc(32));
    const options = { work, clock: systemClock, cursors, feed: new ChangeFeed() };
    const [dashboards, contents] = [new DashboardService(options), new ContentService(options)];
    const series = [
      { missingDevice: 'Boiler', keyName: 'k', sensorId: '', deviceId: '', deviceVariable: '', label: '' },
    ];
    const createWidget = (id: string, title: string) => ({ id, kind: 'latest', title, options: {}, series });
    const frame = { layout: [], variables: [], lastSeconds: undefined };
    const { id } = await dashboards.create(VIEWER, {
      name: 'Boilers',
      description: '',
      visibility: 'organization',
      editorRoleIds: [],
      content: {
        ...frame,
        widgets: [createWidget('a', 'kept'), createWidget('b', 'changed'), createWidget('c', 'deleted')],
      },
    });
    const read = async (): Promise<unknown> => {
      const { name: _, ...dashboard } = await dashboards.get(VIEWER, id);
      return [dashboard, await contents.listRevisions(VIEWER, id)];
    };
    const old = await read();
    const { content, revision } = await dashboards.get(VIEWER, id);
    const [kept, changed] = content.widgets;
    const wanted = {
      ...frame,
      widgets: [kept, { ...changed, title: 'new title' }, createWidget('d', 'created')],
    };
    let stops = 0;
    for (let stopAt = 1; stopAt <= MAX_STATEMENTS; stopAt += 1) {
      const args = [test.url, test.dataDir, id, `"${revision}"`, JSON.stringify(wanted), String(stopAt)];
      const child = Child.start(PROGRAM, args);
      await child.wrote('\n');
      if ((await child.kill()).includes('stored')) break;
      stops += 1;
      expect(await read()).toEqual(old);
    }
    expect(stops).toBeGreaterThan(8);
    const now = await dashboards.get(VIEWER, id);
    expect(now.revision).toBe(revision + 1);
    expect(now.content.widgets.map(({ title }) => title)).toEqual(['kept', 'new title', 'created']);
    expect(await contents.listRevisions(VIEWER, id)).toHaveLength(2);
  });
});
