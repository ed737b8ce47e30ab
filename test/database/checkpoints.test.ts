import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Checkpoints, type CheckpointLimits } from '../../src/database/engines/checkpoints';
import { loadedEngine } from '../../src/database/engines/machineCode';
import { openConnection, type SqliteConnection } from '../../src/database/engines/sqliteConnection';
import { WriteQueue } from '../../src/database/engines/writeQueue';
import { systemClock } from '../../src/kernel/clock';
import { assetPath } from '../../src/kernel/assets';
import { openDatabase } from '../../src/database';
import { Child } from '../support/child';
import { MemoryLog } from '../support/edge';

/** A disk, not the memory that other tests have: the writer must not outrun the thread by far. */
const DISK = process.env['TEST_DISK'] as string;
const PAGE = 4096;
const TEXT = 'x'.repeat(3000);

/** Enough commits that the thread begins, in a program of its own. */
const WRITER = `
  import { openDatabase } from './src/database';
  const say = (fields: object, event: string): void => console.log(event, fields);
  const log = { debug: say, info: say, warn: say, error: say };
  void openDatabase({ url: '', dataDir: process.argv[2]!, log }).then(async (database) => {
    await database.db.knex.raw('create table t (n integer)');
    for (let n = 0; n < 60; n++) await database.transaction(async ({ knex }) => await knex('t').insert({ n }));
    await database.close();
    console.log('closed');
    setInterval(() => {}, 1000);
  });
`;

describe('the write-ahead log', () => {
  let dataDir: string;
  let file: string;
  let writer: SqliteConnection;
  let log: MemoryLog;
  let foldsAt: number[];

  beforeEach(() => {
    dataDir = mkdtempSync(join(DISK, 'checkpoints-'));
    file = join(dataDir, 'test.db');
    writer = openConnection(file, { busyTimeoutMs: 0 });
    writer.run('create table t (name text primary key, text text)');
    writer.run('pragma wal_autocheckpoint = 0');
    log = new MemoryLog();
    foldsAt = [];
  });
  afterEach(() => {
    writer.close();
    rmSync(dataDir, { recursive: true });
  });

  function folding(limits: CheckpointLimits): Checkpoints {
    return new Checkpoints(file, log, (pages) => foldsAt.push(pages), limits);
  }
  function queueWith(checkpoints: Checkpoints): WriteQueue {
    return new WriteQueue(writer, checkpoints, systemClock, log, { mostInGroup: 1, groupMs: 1000, longestWorkMs: 10_000 });
  }

  /** How often the log began anew. */
  const beginnings = (): number => readFileSync(`${file}-wal`).readUInt32BE(12);

  async function writeUntilAnew(queue: WriteQueue, from = 0): Promise<void> {
    const before = beginnings();
    for (let at = from; beginnings() === before; at += 10) await write(queue, 10, at);
  }

  it('begins anew again and again while it is written, and nothing is lost', async () => {
    const checkpoints = folding({ commits: 5, frames: 20 });
    const queue = queueWith(checkpoints);
    await write(queue, 500);
    const [after, log500] = [beginnings(), statSync(`${file}-wal`).size];
    await write(queue, 500, 500);
    expect(beginnings()).toBeGreaterThan(after);
    await write(queue, 1000, 1000);
    await queue.idle();
    await checkpoints.close();
    // 2000 commits take 6000 pages and more.
    expect(log500).toBeLessThan(1000 * PAGE);
    expect(statSync(`${file}-wal`).size).toBeLessThan(1000 * PAGE);
    expect(writer.run('select count(*) as rows from t').rows).toEqual([{ rows: 2000 }]);
    expect(writer.run('pragma integrity_check').rows).toEqual([{ integrity_check: 'ok' }]);
    expect(log.lines).toEqual([]);
  });

  it('stops nobody who writes while somebody reads, and begins anew afterwards', async () => {
    const reader = openConnection(file, { readOnly: true, busyTimeoutMs: 0 });
    reader.run('begin');
    reader.run('select count(*) from t');
    const before = beginnings();
    const checkpoints = folding({ commits: 5, frames: 20 });
    const queue = queueWith(checkpoints);
    let pauses = 0;
    const pause = checkpoints.pause.bind(checkpoints);
    checkpoints.pause = async () => {
      let isOver = false;
      const paused = pause().then(() => (isOver = true));
      for (let turn = 0; turn < 10; turn++) await Promise.resolve(); // the thread cannot answer meanwhile
      if (!isOver) pauses += 1;
      await paused;
    };
    await write(queue, 500);
    expect([pauses, beginnings()]).toEqual([0, before]);
    reader.run('commit');
    await writeUntilAnew(queue, 500);
    expect(pauses).toBeGreaterThan(0);
    reader.close();
    await checkpoints.close();
    expect(log.lines).toEqual([]);
  });

  it('goes on after a time in which it could not be folded in, and says so once', async () => {
    const checkpoints = folding({ commits: 1, frames: 20 });
    const queue = queueWith(checkpoints);
    await writeUntilAnew(queue);
    await write(new WriteQueue(writer, folding({ commits: 1000, frames: 20 }), systemClock, log), 5, 5000);
    const content = readFileSync(`${file}-wal`);
    truncateSync(`${file}-wal`); // what cannot be read cannot be folded in
    while (log.lines.length === 0) {
      checkpoints.committed();
      await new Promise((resolve) => setImmediate(resolve));
    }
    writeFileSync(`${file}-wal`, content, { flag: 'r+' });
    await writeUntilAnew(queue, 10_000);
    await checkpoints.close();
    expect(log.lines).toMatchObject([{ level: 'warn', event: 'database.checkpoint_failed', fields: { error: expect.stringContaining('disk I/O error') as string } }]);
    expect(foldsAt).toEqual([]);
    expect(writer.run('pragma integrity_check').rows).toEqual([{ integrity_check: 'ok' }]);
  });

  it('is no work of the writer while the thread lives', async () => {
    const database = await openDatabase({ url: '', dataDir, log });
    const rows = await database.transaction(async ({ knex }) => (await knex.raw('pragma wal_autocheckpoint')) as unknown);
    expect(rows).toEqual([{ wal_autocheckpoint: 0 }]);
    await database.close();
  });

  it('is folded by a program in a folder of any name', async () => {
    const child = Child.start(WRITER, [dataDir]);
    await child.wrote('closed');
    const output = await child.kill();
    expect(output).toBe('closed\n');
  });

  it('is closed once, however often it is told to', async () => {
    const checkpoints = folding({ commits: 1, frames: 20 });
    const queue = queueWith(checkpoints);
    await write(queue, 1);
    await checkpoints.close();
    await checkpoints.close();
    checkpoints.committed();
    await checkpoints.pause();
    await write(queue, 3, 1);
    expect([log.lines, foldsAt]).toEqual([[], []]);
  });

  it('needs no thread while little is written', async () => {
    const checkpoints = folding({ commits: 5, frames: 20 });
    await write(queueWith(checkpoints), 4);
    await checkpoints.close();
    expect(writer.run('pragma wal_checkpoint(passive)').rows).toMatchObject([{ busy: 0 }]);
  });

  it('is left to the writer, and says so, where the thread cannot work', async () => {
    rmSync(dataDir, { recursive: true });
    const checkpoints = new Checkpoints(join(dataDir, 'gone', 'test.db'), log, (pages) => foldsAt.push(pages), { commits: 1, frames: 1 });
    checkpoints.committed();
    await log.until('database.checkpoint_thread_failed');
    expect(foldsAt).toEqual([1000]);
    for (let more = 0; more < 3; more++) checkpoints.committed();
    await checkpoints.pause();
    await checkpoints.close();
    expect(log.lines).toHaveLength(1);
    dataDir = mkdtempSync(join(DISK, 'checkpoints-'));
  });

  it('is folded by the copy of the engine that the process has loaded', () => {
    expect(loadedEngine()).toEqual({ file: assetPath('better_sqlite3.node'), inode: statSync(assetPath('better_sqlite3.node')).ino });
  });
});

async function write(queue: WriteQueue, rows: number, from = 0): Promise<void> {
  for (let at = from; at < from + rows; at++) await queue.transaction(async ({ run }) => await run('insert into t values (?, ?)', [`row-${at}`, TEXT]));
}
