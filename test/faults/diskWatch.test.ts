import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DiskWatch } from '../../src/database/diskWatch';
import { MemoryLog } from '../support/edge';

const MIB = 1024 * 1024;
const failure = (code: string): Error => Object.assign(new Error('the engine says so'), { code });

describe('the watch over the disk', () => {
  let dataDir: string;
  let log: MemoryLog;
  let watch: DiskWatch;
  let [free, reusable] = [0, 0];
  let takes = true;
  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'plantroom-watch-'));
    [free, reusable] = [100 * MIB, 0];
    takes = true;
    log = new MemoryLog();
    watch = made();
  });
  afterEach(async () => {
    await watch.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  const made = (): DiskWatch => new DiskWatch({ dataDir, log, reusableBytes: () => reusable, takesWrites: () => Promise.resolve(takes), everyMs: 2, free: () => free });
  const until = async (isSo: () => boolean): Promise<void> => {
    for (const end = Date.now() + 5000; !isSo(); await new Promise((resolve) => setTimeout(resolve, 2))) if (Date.now() > end) throw new Error(JSON.stringify(watch.facts()));
  };

  it('keeps a reserve that is really there, of the size that is wanted', async () => {
    watch.start(2);
    await until(() => watch.facts().keptBytes === 2 * MIB);
    const { blocks } = statSync(join(dataDir, '.reserve'));
    expect(blocks * 512).toBeGreaterThanOrEqual(2 * MIB);
    expect(new Set(readFileSync(join(dataDir, '.reserve')).subarray(0, 4096)).size).toBeGreaterThan(200); // nothing that a file system makes smaller
    await watch.stop();
    watch = made();
    watch.start(1);
    await until(() => watch.facts().keptBytes === MIB);
    expect(log.lines).toEqual([]);
  });

  it('makes no reserve where there is no room for it twice over', async () => {
    free = 3 * MIB;
    watch.start(2);
    await watch.stop();
    expect(watch.facts()).toEqual({ state: 'ok', freeBytes: 3 * MIB, reserveBytes: 2 * MIB, keptBytes: 0 });
  });

  it('takes changes again once what was deleted left room inside of the file, and makes the reserve when the disk has room', async () => {
    watch.start(2);
    await until(() => watch.facts().keptBytes === 2 * MIB);
    free = 5 * MIB;
    watch.failed(failure('SQLITE_FULL'));
    expect(watch.facts()).toMatchObject({ state: 'full', keptBytes: 0 });
    expect(() => watch.requireRoom()).toThrow(expect.objectContaining({ kind: 'unavailable', reason: 'storage_full', retryAfterMs: 10_000 }));
    reusable = 20 * MIB;
    await log.until('disk.recovered');
    expect(() => watch.requireRoom()).not.toThrow();
    expect(watch.facts().keptBytes).toBe(0);
    free = 50 * MIB;
    await until(() => watch.facts().keptBytes === 2 * MIB);
  });

  it('is still full after a restart', async () => {
    watch.start(1);
    await until(() => watch.facts().keptBytes === MIB);
    free = 0;
    watch.failed(failure('SQLITE_FULL'));
    await watch.stop();
    watch = made();
    watch.start(1);
    expect(watch.state()).toBe('full');
    free = 100 * MIB;
    await until(() => watch.state() === 'ok' && watch.facts().keptBytes === MIB);
  });

  it.each([
    ['SQLITE_READONLY', 100 * MIB, 'read_only'],
    ['SQLITE_IOERR_WRITE', 0, 'full'],
    ['SQLITE_IOERR_SHMSIZE', 1000, 'full'],
    ['SQLITE_IOERR_WRITE', 100 * MIB, 'read_only'],
    ['SQLITE_IOERR_READ', 100 * MIB, 'ok'],
    ['53100', 100 * MIB, 'full'],
    ['25006', 100 * MIB, 'read_only'],
    ['SQLITE_BUSY', 0, 'ok'],
  ])('takes %s with %i bytes free for %s', (code, bytes, state) => {
    free = bytes;
    watch.failed(failure(code));
    expect(watch.state()).toBe(state);
  });

  it('takes changes again once the disk can be written again', async () => {
    watch.failed(failure('SQLITE_READONLY'));
    expect(() => watch.requireRoom()).toThrow(expect.objectContaining({ reason: 'storage_read_only' }));
    watch.start(0);
    await log.until('disk.recovered');
    expect(watch.state()).toBe('ok');
  });

  it.each(['53100', 'SQLITE_READONLY'])('refuses changes after %s until the database itself takes something again', async (code) => {
    takes = false;
    watch.start(0);
    watch.failed(failure(code));
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(watch.state()).not.toBe('ok');
    takes = true;
    await log.until('disk.recovered');
    expect(watch.state()).toBe('ok');
  });

  it.each([
    ['SQLITE_FULL', 0],
    ['SQLITE_READONLY', 100 * MIB],
  ])('does not go to and fro where %s comes again each time', async (code, bytes) => {
    [free, reusable] = [bytes, 5 * MIB];
    watch.start(0);
    for (const end = Date.now() + 200; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 1))) watch.failed(failure(code));
    expect(log.of('disk.recovered').length).toBeLessThan(bytes === 0 ? 1 : 8); // of 100 looks
  });

  it('makes a reserve whole that a stop left in pieces', async () => {
    writeFileSync(join(dataDir, '.reserve'), 'x');
    truncateSync(join(dataDir, '.reserve'), 300_000);
    watch.start(1);
    await until(() => watch.facts().keptBytes === MIB);
    expect(log.lines).toEqual([]);
  });
});
