import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDatabase } from '../../src/database';
import { openFile } from '../../src/database/engines/sqliteConnection';
import { silentLogger } from '../../src/kernel/logger';
import { engines, type TestDatabase } from '../support/engines';

const PAIRS = 8;
const FRAME = 24 + 4096;

describe.each(engines())('transactions ahead on $name', (engine) => {
  let db: TestDatabase;
  beforeAll(async () => {
    db = await engine.createDatabase();
    await db.database.db.knex.raw('create table ahead (n integer primary key)');
  });
  afterAll(async () => await db.drop());

  it('are seen by whoever comes after them, and are not there when they throw', async () => {
    const insert = async (n: number): Promise<void> => await db.database.transactionAhead(async ({ knex }) => void (await knex('ahead').insert({ n })));
    await Promise.all(Array.from({ length: 100 }, async (_, n) => await insert(n)));
    await expect(insert(7)).rejects.toThrow(/ahead/);
    expect(await db.database.transaction(async ({ knex }) => (await knex('ahead').select('n')).length)).toBe(100);
  });

  it('keep nobody waiting for ever, however many come', async () => {
    const flood = { isOver: false };
    const comers = Array.from({ length: 4 }, async () => {
      while (!flood.isOver) await db.database.transactionAhead(async ({ knex }) => void (await knex('ahead').select('n').limit(1)));
    });
    for (let n = 1000; n < 1010; n++) await db.database.transaction(async ({ knex }) => void (await knex('ahead').insert({ n })));
    flood.isOver = true;
    await Promise.all(comers);
  });
});

describe('the write-ahead log of SQLite', () => {
  it('holds nothing without what was committed ahead of it, wherever it is cut off', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plantroom-ahead-'));
    const database = await openDatabase({ url: '', dataDir: folder, log: silentLogger });
    try {
      await database.db.knex.raw('create table beginnings (n integer)');
      await database.db.knex.raw('create table changes (n integer)');
      const change = async (n: number): Promise<void> => {
        await database.transactionAhead(async ({ knex }) => void (await knex('beginnings').insert({ n })));
        await database.transaction(async ({ knex }) => void (await knex('changes').insert({ n })));
      };
      for (let n = 0; n < PAIRS; n += 2) await Promise.all([change(n), change(n + 1)]);
      const log = readFileSync(join(folder, 'plantroom.db-wal'));
      const seen = new Set<string>();
      for (let end = 32; end <= log.length; end += FRAME) seen.add(counts(folder, log.subarray(0, end)));
      expect([...seen].filter((text) => text !== 'none').map((text) => text.split(':').map(Number)).filter(([beginnings = 0, changes = 0]) => changes > beginnings)).toEqual([]);
      expect([seen.has('2:0'), seen.has(`${PAIRS}:${PAIRS}`)]).toEqual([true, true]);
    } finally {
      await database.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

/** How many beginnings and changes are there after the power failed with so much of the log on disk. */
function counts(folder: string, log: Buffer): string {
  const file = join(folder, 'cut.db');
  copyFileSync(join(folder, 'plantroom.db'), file);
  writeFileSync(`${file}-wal`, log);
  const cut = openFile(file, { busyTimeoutMs: 0 });
  try {
    const tables = cut.prepare("select count(*) as n from sqlite_schema where name in ('beginnings', 'changes')").get() as { n: number };
    if (tables.n < 2) return 'none';
    const { b, c } = cut.prepare('select (select count(*) from beginnings) as b, (select count(*) from changes) as c').get() as { b: number; c: number };
    return `${b}:${c}`;
  } finally {
    cut.close();
    for (const part of ['', '-wal', '-shm']) rmSync(`${file}${part}`, { force: true });
  }
}
