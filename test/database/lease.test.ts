import type { Database } from '../../src/database';
import { silentLogger } from '../../src/kernel/logger';
import { TcpProxy } from '../brokers/tcpProxy';
import { engines, type TestDatabase } from '../support/engines';

const [, postgres] = engines();
const insert = {
  name: 'test.lease.insert',
  sql: () => 'insert into settings (name, value) values (?, ?) returning name',
};

describe('the lease of a PostgreSQL database', () => {
  let db: TestDatabase;
  let opened: Database[];
  beforeEach(async () => {
    db = await (postgres as NonNullable<typeof postgres>).createDatabase();
    opened = [];
  });
  afterEach(async () => {
    for (const database of opened) await database.close();
    await db.drop();
  });

  async function open(leaseMs: number): Promise<Database> {
    const database = await db.open({ leaseMs, log: silentLogger });
    opened.push(database);
    return database;
  }

  const settings = async (): Promise<string[]> =>
    (await db.database.db.knex('settings').orderBy('name').pluck('name')) as string[];

  it('prevents commits of an expired holder, for running and for new transactions', async () => {
    const first = await open(300_000); // it does not renew during the test
    await first.acquireOwnership(() => {});
    const { promise: mayCommit, resolve: commit } = Promise.withResolvers<void>();
    const { promise: wrote, resolve: written } = Promise.withResolvers<void>();
    const late = first.transaction(async (transaction) => {
      await transaction.all(insert, ['under way', '']);
      written();
      await mayCommit;
    });
    await wrote;
    await db.database.db.knex('leases').update({ expires_at: db.database.db.knex.raw('clock_timestamp()') });
    await (await open(1000)).acquireOwnership(() => {});
    commit();
    await expect(late).rejects.toMatchObject({ reason: 'database_unavailable' });
    const begin = async (): Promise<unknown> =>
      await first.transaction(async (transaction) => await transaction.all(insert, ['begun', '']));
    for (let attempt = 0; attempt < 3; attempt += 1)
      await expect(begin()).rejects.toMatchObject({ reason: 'database_unavailable' });
    await expect(first.db.all(insert, ['alone', ''])).rejects.toMatchObject({ reason: 'database_unavailable' });
    expect(await settings()).toEqual([]);
  });

  it('lets an expired holder continue if no other server has taken it', async () => {
    const first = await open(300_000);
    await first.acquireOwnership(() => {});
    await db.database.db.knex('leases').update({ expires_at: db.database.db.knex.raw('clock_timestamp()') });
    await first.transaction(async (transaction) => await transaction.all(insert, ['late', '']));
    expect(await settings()).toEqual(['late']);
  });

  it('frees the locks of connections that died on the server side only', async () => {
    const proxy = await TcpProxy.start(Number(new URL(db.url).port));
    const url = new URL(db.url);
    url.port = String(proxy.port);
    const holder = await db.open({ url: url.href, leaseMs: 1000, log: silentLogger });
    try {
      await holder.acquireOwnership(() => {});
      const lostTransaction = holder.transaction(async (transaction) => {
        await transaction.all(insert, ['name', '']);
        proxy.cut('client');
        await transaction.all(insert, ['another', '']);
      });
      await expect(lostTransaction).rejects.toMatchObject({ reason: 'database_unavailable' });
      // It waits for the previous transaction, which PostgreSQL considers open: 30 s unless it is ended.
      await holder.transaction(async (transaction) => {
        await transaction.knex.raw("set local lock_timeout = '15s'");
        await transaction.all(insert, ['name', '']);
      });
      expect(await settings()).toEqual(['name']);
    } finally {
      await holder.close();
      await proxy.stop();
    }
  });

  it('does not cancel a statement that takes longer than the lease', async () => {
    const holder = await open(1000);
    await holder.acquireOwnership(() => {});
    expect(
      await holder.db.all({ name: 'test.lease.slow', sql: () => "select 'done' as slept from pg_sleep(1.5)" }, []),
    ).toEqual([{ slept: 'done' }]);
  });

  it('treats a missing table as another database, and ends', async () => {
    const holder = await open(1000);
    const lost = new Promise(
      (resolve) =>
        void holder.acquireOwnership(resolve).then(async () => await db.database.db.knex.schema.dropTable('leases')),
    );
    expect(await lost).toMatchObject({ reason: 'database_in_use' });
  });
});
