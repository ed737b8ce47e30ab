import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Checkpoints, type CheckpointLimits } from '../../src/database/engines/checkpoints';
import { getLoadedModule } from '../../src/database/engines/nativeModule';
import { openConnection, type SqliteConnection } from '../../src/database/engines/sqliteConnection';
import { WriteQueue } from '../../src/database/engines/writeQueue';
import { systemClock } from '../../src/kernel/clock';
import { assetPath } from '../../src/kernel/assets';
import { openDatabase } from '../../src/database';
import { Child } from '../support/child';
import { MemoryLog } from '../support/edge';

/** A real disk instead of the memory that other tests use: the writer must not outrun the thread by far. */
const DISK = process.env['TEST_DISK'] as string;
const PAGE = 4096;
const TEXT = 'x'.repeat(3000);

/** Makes enough commits to start the checkpoint thread, in a separate program. */
const WRITER = `
  import { openDatabase } from './src/database';
  const writeLine = (fields: object, event: string): void => console.log(event, fields);
  const log = { debug: writeLine, info: writeLine, warn: writeLine, error: writeLine };
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
  let checkpointedAt: number[];

  beforeEach(() => {
    dataDir = mkdtempSync(join(DISK, 'checkpoints-'));
    file = join(dataDir, 'test.db');
    writer = openConnection(file, { busyTimeoutMs: 0 });
    writer.run('create table t (name text primary key, text text)');
    writer.run('pragma wal_autocheckpoint = 0');
    log = new MemoryLog();
    checkpointedAt = [];
  });
  afterEach(() => {
    writer.close();
    rmSync(dataDir, { recursive: true });
  });

  function createCheckpoints(limits: CheckpointLimits): Checkpoints {
    return new Checkpoints(file, log, (pages) => checkpointedAt.push(pages), limits);
  }
  function queueWith(checkpoints: Checkpoints): WriteQueue {
    return new WriteQueue(writer, checkpoints, systemClock, log, {
      maxGroupSize: 1,
      groupMs: 1000,
      maxWorkMs: 10_000,
    });
  }

  /** Returns how often the log was restarted. */
  const countRestarts = (): number => readFileSync(`${file}-wal`).readUInt32BE(12);

  async function writeUntilRestart(queue: WriteQueue, from = 0): Promise<void> {
    const before = countRestarts();
    for (let at = from; countRestarts() === before; at += 10) await write(queue, 10, at);
  }

  it('restarts again and again during writes, and loses nothing', async () => {
    const checkpoints = createCheckpoints({ commitsPerCheckpoint: 5, maxFrames: 20 });
    const queue = queueWith(checkpoints);
    await writeUntilRestart(queue, 10_000); // the thread may start late on a busy machine; until then the log grows
    const [firstRestarts, firstSize] = [countRestarts(), statSync(`${file}-wal`).size];
    const countRows = (): unknown =>
      writer.run('select count(*) from t').rows?.map((row) => Object.values(row as object)[0] as number)[0];
    const before = countRows() as number;
    await write(queue, 2000);
    await queue.waitUntilIdle();
    await checkpoints.close();
    expect(countRestarts()).toBeGreaterThan(firstRestarts);
    // 2000 commits write 6000 pages and more.
    expect(statSync(`${file}-wal`).size).toBeLessThan(firstSize + 1000 * PAGE);
    expect(countRows()).toBe(before + 2000);
    expect(writer.run('pragma integrity_check').rows).toEqual([{ integrity_check: 'ok' }]);
    expect(log.lines).toEqual([]);
  });

  it('does not block writers during a long read, and restarts afterwards', async () => {
    const reader = openConnection(file, { readOnly: true, busyTimeoutMs: 0 });
    reader.run('begin');
    reader.run('select count(*) from t');
    const before = countRestarts();
    const checkpoints = createCheckpoints({ commitsPerCheckpoint: 5, maxFrames: 20 });
    const queue = queueWith(checkpoints);
    let pauses = 0;
    const pause = checkpoints.pauseIfLogIsLong.bind(checkpoints);
    checkpoints.pauseIfLogIsLong = async () => {
      let isOver = false;
      const paused = pause().then(() => (isOver = true));
      for (let turn = 0; turn < 10; turn++) await Promise.resolve(); // the thread cannot answer meanwhile
      if (!isOver) pauses += 1;
      await paused;
    };
    await write(queue, 500);
    expect([pauses, countRestarts()]).toEqual([0, before]);
    reader.run('commit');
    await writeUntilRestart(queue, 500);
    expect(pauses).toBeGreaterThan(0);
    reader.close();
    await checkpoints.close();
    expect(log.lines).toEqual([]);
  });

  it('continues after a time without checkpoints, and logs that once', async () => {
    const checkpoints = createCheckpoints({ commitsPerCheckpoint: 1, maxFrames: 20 });
    const queue = queueWith(checkpoints);
    await writeUntilRestart(queue);
    await write(
      new WriteQueue(writer, createCheckpoints({ commitsPerCheckpoint: 1000, maxFrames: 20 }), systemClock, log),
      5,
      5000,
    );
    const content = readFileSync(`${file}-wal`);
    truncateSync(`${file}-wal`); // a file that cannot be read cannot be checkpointed
    while (log.lines.length === 0) {
      checkpoints.handleCommit();
      await new Promise((resolve) => setImmediate(resolve));
    }
    writeFileSync(`${file}-wal`, content, { flag: 'r+' });
    await writeUntilRestart(queue, 10_000);
    await checkpoints.close();
    expect(log.lines).toMatchObject([
      {
        level: 'warn',
        event: 'database.checkpoint_failed',
        fields: { error: expect.stringContaining('disk I/O error') as string },
      },
    ]);
    expect(checkpointedAt).toEqual([]);
    expect(writer.run('pragma integrity_check').rows).toEqual([{ integrity_check: 'ok' }]);
  });

  it('is not checkpointed by the writer while the thread runs', async () => {
    const database = await openDatabase({ url: '', dataDir, log });
    const rows = await database.transaction(
      async ({ knex }) => (await knex.raw('pragma wal_autocheckpoint')) as unknown,
    );
    expect(rows).toEqual([{ wal_autocheckpoint: 0 }]);
    await database.close();
  });

  it('is checkpointed by a program in a folder of any name', async () => {
    const child = Child.start(WRITER, [dataDir]);
    await child.wrote('closed');
    const output = await child.kill();
    expect(output).toBe('closed\n');
  });

  it('is closed once, however often it is closed', async () => {
    const checkpoints = createCheckpoints({ commitsPerCheckpoint: 1, maxFrames: 20 });
    const queue = queueWith(checkpoints);
    await write(queue, 1);
    await checkpoints.close();
    await checkpoints.close();
    checkpoints.handleCommit();
    await checkpoints.pauseIfLogIsLong();
    await write(queue, 3, 1);
    expect([log.lines, checkpointedAt]).toEqual([[], []]);
  });

  it('needs no thread while there are few writes', async () => {
    const checkpoints = createCheckpoints({ commitsPerCheckpoint: 5, maxFrames: 20 });
    await write(queueWith(checkpoints), 4);
    await checkpoints.close();
    expect(writer.run('pragma wal_checkpoint(passive)').rows).toMatchObject([{ busy: 0 }]);
  });

  it('is checkpointed by the writer, with a log line, where the thread cannot work', async () => {
    rmSync(dataDir, { recursive: true });
    const checkpoints = new Checkpoints(join(dataDir, 'gone', 'test.db'), log, (pages) => checkpointedAt.push(pages), {
      commitsPerCheckpoint: 1,
      maxFrames: 1,
    });
    checkpoints.handleCommit();
    await log.until('database.checkpoint_worker_failed');
    expect(checkpointedAt).toEqual([1000]);
    for (let more = 0; more < 3; more++) checkpoints.handleCommit();
    await checkpoints.pauseIfLogIsLong();
    await checkpoints.close();
    expect(log.lines).toHaveLength(1);
    dataDir = mkdtempSync(join(DISK, 'checkpoints-'));
  });

  it('is checkpointed by the copy of the engine that the process has loaded', () => {
    expect(getLoadedModule()).toEqual({
      file: assetPath('better_sqlite3.node'),
      inode: statSync(assetPath('better_sqlite3.node')).ino,
    });
  });
});

async function write(queue: WriteQueue, rows: number, from = 0): Promise<void> {
  for (let at = from; at < from + rows; at++)
    await queue.transaction(async ({ run }) => await run('insert into t values (?, ?)', [`row-${at}`, TEXT]));
}
