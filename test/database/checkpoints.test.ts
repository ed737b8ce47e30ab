import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Checkpoints, type CheckpointLimits } from '../../src/database/engines/checkpoints';
import { loadedEngine, openConnection, type SqliteConnection } from '../../src/database/engines/sqliteConnection';
import { WriteQueue } from '../../src/database/engines/writeQueue';
import { systemClock } from '../../src/kernel/clock';
import { assetPath } from '../../src/kernel/assets';
import { MemoryLog } from '../support/edge';

const PAGE = 4096;
const TEXT = 'x'.repeat(3000);

describe('the write-ahead log', () => {
  let dataDir: string;
  let file: string;
  let writer: SqliteConnection;
  let log: MemoryLog;
  let foldsAt: number[];

  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'checkpoints-'));
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

  it('begins anew again and again while it is written, and nothing is lost', async () => {
    const checkpoints = folding({ commits: 5, frames: 20 });
    const queue = queueWith(checkpoints);
    await write(queue, 2000);
    await queue.idle();
    await checkpoints.close();
    expect(statSync(`${file}-wal`).size).toBeLessThan(1500 * PAGE);
    expect(readFileSync(`${file}-wal`).readUInt32BE(12)).toBeGreaterThan(1); // how often it began anew
    expect(writer.run('select count(*) as rows from t').rows).toEqual([{ rows: 2000 }]);
    expect(writer.run('pragma integrity_check').rows).toEqual([{ integrity_check: 'ok' }]);
    expect(log.lines).toEqual([]);
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
    dataDir = mkdtempSync(join(tmpdir(), 'checkpoints-'));
  });

  it('is folded by the copy of the engine that the process has loaded', () => {
    expect(loadedEngine()).toBe(statSync(assetPath('better_sqlite3.node')).ino);
  });
});

async function write(queue: WriteQueue, rows: number): Promise<void> {
  for (let at = 0; at < rows; at++) await queue.transaction(async ({ run }) => await run('insert into t values (?, ?)', [`row-${at}`, TEXT]));
}
