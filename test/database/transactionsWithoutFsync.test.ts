import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDatabase } from '../../src/database';
import { openFile } from '../../src/database/engines/sqliteConnection';
import { silentLogger } from '../../src/kernel/logger';
import { engines, type TestDatabase } from '../support/engines';

const PAIRS = 8;
const FRAME = 24 + 4096;

describe.each(engines())('transactions without fsync on $name', (engine) => {
  let db: TestDatabase;
  beforeAll(async () => {
    db = await engine.createDatabase();
    await db.database.db.knex.raw('create table ahead (n integer primary key)');
  });
  afterAll(async () => await db.drop());

  it('are visible to later transactions, and are rolled back when they throw', async () => {
    const insert = async (n: number): Promise<void> =>
      await db.database.transactionWithoutFsync(async ({ knex }) => void (await knex('ahead').insert({ n })));
    await Promise.all(Array.from({ length: 100 }, async (_, n) => await insert(n)));
    await expect(insert(7)).rejects.toThrow(/ahead/);
    expect(await db.database.transaction(async ({ knex }) => (await knex('ahead').select('n')).length)).toBe(100);
  });

  it('do not block other transactions, even when many follow each other', async () => {
    const flood = { isOver: false };
    const laterTransactions = Array.from({ length: 4 }, async () => {
      while (!flood.isOver)
        await db.database.transactionWithoutFsync(async ({ knex }) => void (await knex('ahead').select('n').limit(1)));
    });
    for (let n = 1000; n < 1010; n++)
      await db.database.transaction(async ({ knex }) => void (await knex('ahead').insert({ n })));
    flood.isOver = true;
    await Promise.all(laterTransactions);
  });
});

describe('the write-ahead log of SQLite', () => {
  it('contains nothing without the earlier commits it depends on, wherever it is cut off', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plantroom-ahead-'));
    const database = await openDatabase({ url: '', dataDir: folder, log: silentLogger });
    try {
      await database.db.knex.raw('create table beginnings (n integer)');
      await database.db.knex.raw('create table changes (n integer)');
      const change = async (n: number): Promise<void> => {
        await database.transactionWithoutFsync(async ({ knex }) => void (await knex('beginnings').insert({ n })));
        await database.transaction(async ({ knex }) => void (await knex('changes').insert({ n })));
      };
      for (let n = 0; n < PAIRS; n += 2) await Promise.all([change(n), change(n + 1)]);
      const log = readFileSync(join(folder, 'plantroom.db-wal'));
      const states = new Set<string>();
      for (let end = 32; end <= log.length; end += FRAME) states.add(countEvents(folder, log.subarray(0, end)));
      expect(
        [...states]
          .filter((text) => text !== 'none')
          .map((text) => text.split(':').map(Number))
          .filter(([beginnings = 0, changes = 0]) => changes > beginnings),
      ).toEqual([]);
      expect([states.has('2:0'), states.has(`${PAIRS}:${PAIRS}`)]).toEqual([true, true]);
    } finally {
      await database.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

/** Counts the begin events and the changes that are left after a power failure with this part of the log on disk. */
function countEvents(folder: string, log: Buffer): string {
  const file = join(folder, 'cut.db');
  copyFileSync(join(folder, 'plantroom.db'), file);
  writeFileSync(`${file}-wal`, log);
  const cut = openFile(file, { busyTimeoutMs: 0 });
  try {
    const tables = cut
      .prepare("select count(*) as n from sqlite_schema where name in ('beginnings', 'changes')")
      .get() as { n: number };
    if (tables.n < 2) return 'none';
    const { b, c } = cut
      .prepare('select (select count(*) from beginnings) as b, (select count(*) from changes) as c')
      .get() as { b: number; c: number };
    return `${b}:${c}`;
  } finally {
    cut.close();
    for (const part of ['', '-wal', '-shm']) rmSync(`${file}${part}`, { force: true });
  }
}
