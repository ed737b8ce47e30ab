import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Database, lockDataFolder, openDatabase } from '../../src/database';
import { Checkpoints } from '../../src/database/engines/checkpoints';
import { openConnection, type SqliteConnection } from '../../src/database/engines/sqliteConnection';
import { WriteQueue } from '../../src/database/engines/writeQueue';
import { systemClock } from '../../src/kernel/clock';
import { silentLogger } from '../../src/kernel/logger';
import { Child } from '../support/child';
import { engines, type TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';

const log = silentLogger;
const [sqlite, postgres] = engines();
const unavailable = { kind: 'unavailable', reason: 'database_unavailable' };
const put = { name: 'test.put', sql: () => 'insert into settings (name, value) values (?, ?)' };

let dataDir: string;
beforeEach(() => (dataDir = mkdtempSync(join(tmpdir(), 'plantroom-faults-'))));
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

describe('the lock of the data folder', () => {
  it('rejects a second server and names the one that holds it', async () => {
    const lock = await lockDataFolder(dataDir, { now: () => 0, monotonic: () => 0 });
    await expect(lockDataFolder(dataDir)).rejects.toMatchObject({
      kind: 'conflict',
      reason: 'data_dir_in_use',
      metadata: { pid: String(process.pid), since: '1970-01-01T00:00:00.000Z' },
    });
    lock.release();
    (await lockDataFolder(dataDir)).release();
  });

  it('is released when its process is killed', async () => {
    const holder = Child.start(
      `import { lockDataFolder } from './src/database'; void lockDataFolder(process.argv[2]!).then(() => console.log('locked')); setInterval(() => {}, 1000);`,
      [dataDir],
    );
    await holder.wrote('locked');
    await expect(lockDataFolder(dataDir)).rejects.toMatchObject({ reason: 'data_dir_in_use' });
    await holder.kill();
    (await lockDataFolder(dataDir)).release();
  });

  it('creates the folder, and reports what is wrong where it cannot', async () => {
    (await lockDataFolder(join(dataDir, 'new', 'folder'))).release();
    writeFileSync(join(dataDir, 'file'), '');
    const refused = {
      reason: 'data_dir_not_writable',
      message: expect.stringContaining(join(dataDir, 'file')) as string,
    };
    await expect(lockDataFolder(join(dataDir, 'file'))).rejects.toMatchObject(refused);
    await expect(openDatabase({ url: '', dataDir: join(dataDir, 'file', 'below'), log })).rejects.toMatchObject({
      reason: 'data_dir_not_writable',
    });
  });
});

describe('opening a database', () => {
  it('reports that a file is not a database', async () => {
    writeFileSync(
      join(dataDir, 'plantroom.db'),
      'this is no database at all, but it is long enough to be read as one '.repeat(20),
    );
    await expect(openDatabase({ url: '', dataDir, log })).rejects.toMatchObject({
      reason: 'database_corrupt',
      message: expect.stringContaining('plantroom.db') as string,
    });
  });

  it('reports that there is nothing to read yet', async () => {
    await expect(openDatabase({ url: '', dataDir, log, readOnly: true })).rejects.toMatchObject({
      reason: 'database_unreadable',
    });
    expect(readdirSync(dataDir)).toEqual([]);
  });

  it.each(['mysql://x', 'plantroom.db', 'postgres', 'http://user:secret@host/'])(
    'rejects the URL %s without repeating it',
    async (url) => {
      const error: unknown = await openDatabase({ url, dataDir, log }).catch((caught: unknown) => caught);
      expect(error).toMatchObject({ kind: 'invalid_argument', reason: 'database_url_invalid' });
      expect((error as Error).message).not.toContain('secret');
    },
  );

  it('reports that PostgreSQL does not answer, without the password', async () => {
    const error: unknown = await openDatabase({ url: 'postgres://user:secret@127.0.0.1:1/none', dataDir, log }).catch(
      (caught: unknown) => caught,
    );
    expect(error).toMatchObject({
      kind: 'unavailable',
      reason: 'database_unavailable',
      message: expect.stringContaining('127.0.0.1:1/none') as string,
    });
    expect((error as Error).message).not.toContain('secret');
  });

  it('reports that PostgreSQL has no such database', async () => {
    const url = (process.env['TEST_POSTGRES_URL'] as string).replace(/[^/]*$/, 'no_such_database');
    await expect(openDatabase({ url, dataDir, log })).rejects.toMatchObject({
      kind: 'conflict',
      reason: 'database_refused',
    });
  });

  it.each([sqlite, postgres])('rejects writes to $name when it was opened read-only', async (engine) => {
    const test = await (engine as NonNullable<typeof engine>).createDatabase();
    await test.database.db.all(put, ['a', 'v']);
    const reader = await test.open({ readOnly: true });
    expect(await reader.db.knex('settings').pluck('name')).toEqual(['a']);
    await expect(reader.db.knex('settings').insert({ name: 'b', value: 'v' })).rejects.toMatchObject({
      name: 'DomainError',
    });
    await reader.close();
    await test.drop();
  });
});

describe('SQLite', () => {
  let test: TestDatabase;
  let database: Database;
  const names = async (): Promise<string[]> => await database.db.knex('settings').orderBy('name').pluck('name');
  beforeEach(async () => {
    test = await (sqlite as NonNullable<typeof sqlite>).createDatabase();
    database = test.database;
  });
  afterEach(async () => await test.drop());

  it('survives a full disk: stores nothing partially, and continues once there is space', async () => {
    await database.db.all(put, ['before', 'v']);
    await database.transaction(async (db) => {
      const [row] = await db.knex.raw<{ page_count: number }[]>('pragma page_count');
      await db.knex.raw(`pragma max_page_count = ${(row?.page_count ?? 0) + 3}`);
    });
    const big = 'x'.repeat(100_000);
    const outcomes = await Promise.allSettled(
      ['a', 'b', 'c'].map(async (name) => await database.transaction(async (db) => await db.all(put, [name, big]))),
    );
    for (const outcome of outcomes)
      expect(outcome).toMatchObject({
        status: 'rejected',
        reason: { kind: 'unavailable', reason: 'storage_full', retryAfterMs: 10_000 },
      });
    await expect(database.db.knex('settings').insert({ name: 'd', value: big })).rejects.toMatchObject({
      message: expect.stringMatching(/^the disk of the database is full/) as string,
    });
    expect(await names()).toEqual(['before']);
    await database.transaction(async (db) => void (await db.knex.raw('pragma max_page_count = 1000000')));
    await database.db.all(put, ['after', big]);
    expect(await names()).toEqual(['after', 'before']);
    expect(await database.db.knex.raw('pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  });

  it('waits for another process that writes, and reads meanwhile', async () => {
    const other = openConnection(join(test.dataDir, 'plantroom.db'), { busyTimeoutMs: 0 });
    other.run('begin immediate');
    other.run("insert into settings (name, value) values ('theirs', 'v')");
    const write = database.transaction(async (db) => await db.all(put, ['ours', 'v']));
    expect(await names()).toEqual([]);
    other.run('commit');
    await write;
    expect(await names()).toEqual(['ours', 'theirs']);
    other.close();
  });

  it('confirms no transaction of a group whose commit fails', async () => {
    await database.db.knex.raw(
      'create table strict (name text references settings (name) deferrable initially deferred)',
    );
    // A group takes no further transaction after 5 ms; this clock stands still, so all three share one commit.
    const grouping = await test.open({ clock: new TestClock() });
    const hooks: string[] = [];
    const outcomes = await Promise.allSettled(
      [1, 2, 3].map(
        async (at) =>
          await grouping.transaction(async (db) => {
            await db.all(put, [`row-${at}`, 'v']);
            if (at === 2) await db.knex('strict').insert({ name: 'nowhere' });
            db.afterCommit(() => hooks.push(`row-${at}`));
          }),
      ),
    );
    expect(outcomes.map((outcome) => outcome.status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(hooks).toEqual([]);
    expect(await names()).toEqual([]);
    await grouping.close();
  });

  it('reports that it is closed', async () => {
    const closed = await test.open();
    await closed.close();
    await expect(closed.ping()).rejects.toMatchObject(unavailable);
    await expect(closed.transaction(async (db) => await db.all(put, ['a', 'v']))).rejects.toMatchObject(unavailable);
  });

  it('keeps every acknowledged write after a kill', async () => {
    const writers = `
      import { openDatabase } from './src/database';
      import { silentLogger } from './src/kernel/logger';
      const put = { name: 'put', sql: () => 'insert into settings (name, value) values (?, ?)' };
      async function main() {
        const database = await openDatabase({ url: '', dataDir: process.argv[2]!, log: silentLogger });
        for (let writer = 0; writer < 64; writer++) void (async () => {
          for (let at = 0; ; at++) {
            await database.transaction(async (db) => void (await db.all(put, [writer + '/' + at, 'v'])));
            process.stdout.write('ack ' + writer + '/' + at + '\\n');
          }
        })();
      }
      void main();`;
    const child = Child.start(writers, [test.dataDir]);
    await child.wrote('ack 63/20\n');
    const acknowledged = [...(await child.kill()).matchAll(/ack (\d+\/\d+)\n/g)].map((match) => match[1] as string);
    const stored = new Set(await names());
    expect(acknowledged.length).toBeGreaterThan(1000);
    expect(acknowledged.filter((name) => !stored.has(name))).toEqual([]);
  });
});

describe('the write queue', () => {
  let connection: SqliteConnection;
  beforeEach(() => {
    connection = openConnection(join(dataDir, 'queue.db'), { busyTimeoutMs: 0 });
    connection.run('create table t (name text primary key)');
  });
  afterEach(() => connection.close());

  it('waits in the engine no longer than its timeout, independent of the timeout for opening the file', () => {
    expect(connection.run('pragma busy_timeout').rows).toEqual([{ timeout: 0 }]);
  });

  it('rolls back work that never finishes, so that the others continue', async () => {
    const queue = new WriteQueue(connection, createIdleCheckpoints(), systemClock, silentLogger, {
      maxGroupSize: 10,
      groupMs: 60_000,
      maxWorkMs: 20,
    });
    const stuck = queue.transaction(async (transaction) => {
      await transaction.run("insert into t values ('stuck')", []);
      await queue.transaction(async () => {}); // waits for itself
    });
    const next = queue.transaction(async (transaction) => await transaction.run("insert into t values ('next')", []));
    await expect(stuck).rejects.toMatchObject({ code: 'TRANSACTION_TIMEOUT' });
    await next;
    await queue.waitUntilIdle();
    expect(connection.run('select name from t').rows).toEqual([{ name: 'next' }]);
  });

  it.each([1, 3, 100])('keeps the order of waiting transactions, in groups of up to %i', async (maxGroupSize) => {
    const queue = new WriteQueue(connection, createIdleCheckpoints(), systemClock, silentLogger, {
      maxGroupSize,
      groupMs: 60_000,
      maxWorkMs: 30_000,
    });
    const order: number[] = [];
    const all = Array.from({ length: 10 }, async (_, at) => {
      await queue.transaction(async (transaction) => await transaction.run('insert into t values (?)', [`row-${at}`]));
      order.push(at);
    });
    await Promise.all(all);
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(connection.run('select name from t order by rowid').rows).toHaveLength(10);
  });
});

describe('PostgreSQL', () => {
  let test: TestDatabase;
  let database: Database;
  beforeEach(async () => {
    test = await (postgres as NonNullable<typeof postgres>).createDatabase();
    database = test.database;
    await database.db.knex('settings').insert([
      { name: 'a', value: '0' },
      { name: 'b', value: '0' },
    ]);
  });
  afterEach(async () => await test.drop());

  it('repeats a transaction that lost a deadlock, including the hooks of the first attempt', async () => {
    const hooks: string[] = [];
    let tries = 0;
    const bothStarted = Promise.withResolvers<void>();
    const both = [
      ['a', 'b'],
      ['b', 'a'],
    ].map(
      async ([first, second]) =>
        await database.transaction(async (db) => {
          db.afterCommit(() => hooks.push(`${first}${second}`));
          await db.knex('settings').where({ name: first }).update({ value: '1' });
          if (++tries === 2) bothStarted.resolve();
          await bothStarted.promise;
          await db.knex('settings').where({ name: second }).update({ value: '2' });
        }),
    );
    await Promise.all(both);
    // one of the two runs again; on a busy machine the loser may meet the winner again
    expect(tries).toBeGreaterThan(2);
    expect(hooks.toSorted()).toEqual(['ab', 'ba']);
  });

  it('does not report a transaction as committed if one of its statements failed unobserved', async () => {
    const work = database.transaction(async (db) => {
      await db.knex('settings').where({ name: 'b' }).update({ value: 'lost' });
      await db
        .knex('settings')
        .insert({ name: 'a', value: 'again' })
        .catch(() => {});
    });
    await expect(work).rejects.toThrow(/rolled back/);
    expect(await database.db.knex('settings').where({ name: 'b' }).first('value')).toEqual({ value: '0' });
  });

  it('reports a lost connection, and opens a new one', async () => {
    const lost = database.transaction(async (db) => {
      const { rows } = await db.knex.raw<{ rows: { pid: number }[] }>('select pg_backend_pid() as pid');
      await database.db.knex.raw('select pg_terminate_backend(?)', [rows[0]?.pid ?? 0]);
      await db.knex('settings').select();
    });
    await expect(lost).rejects.toMatchObject(unavailable);
    await expect(database.ping()).resolves.toBeUndefined();
    await database.transaction(async (db) => await db.all(put, ['c', 'v']));
  });

  it('works without the search extension, and logs that', async () => {
    await database.migrateDown('');
    const { knex } = database.db;
    await knex.raw('drop extension pg_trgm');
    await knex.raw('drop role if exists plain_user');
    await knex.raw('create role plain_user login');
    await knex.raw('alter schema public owner to plain_user');
    await knex.raw('grant all on all tables in schema public to plain_user');
    const warnings: unknown[] = [];
    const plain = await test.open({
      url: test.url.replace('plantroom@', 'plain_user@'),
      log: { ...log, warn: (fields, event) => warnings.push([event, fields]) },
    });
    await plain.migrate();
    expect(warnings).toEqual([['database.recommendation', { message: expect.stringContaining('pg_trgm') as string }]]);
    expect(await plain.dialect.whereNameContains(plain.db.knex('digital_devices as d'), 'abc').pluck('d.id')).toEqual(
      [],
    );
    await plain.close();
  });
});

/** Never runs in this test, because too little is written. */
function createIdleCheckpoints(): Checkpoints {
  return new Checkpoints(join(dataDir, 'queue.db'), silentLogger, () => {});
}
