import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DiskMonitor } from '../../src/database/diskMonitor';
import { MemoryLog } from '../support/edge';
import { waitUntil } from '../support/waitUntil';

const MIB = 1024 * 1024;
const failure = (code: string): Error => Object.assign(new Error('the engine says so'), { code });

describe('the disk watch', () => {
  let dataDir: string;
  let log: MemoryLog;
  let watch: DiskMonitor;
  let [free, reusable] = [0, 0];
  let takes = true;
  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'plantroom-watch-'));
    [free, reusable] = [100 * MIB, 0];
    takes = true;
    log = new MemoryLog();
    watch = createMonitor();
  });
  afterEach(async () => {
    await watch.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  const createMonitor = (options: { monotonic?: () => number } = {}): DiskMonitor =>
    new DiskMonitor({
      ...options,
      dataDir,
      log,
      reusableBytes: () => reusable,
      acceptsWrites: () => Promise.resolve(takes),
      checkIntervalMs: 2,
      getFreeBytes: () => free,
    });
  it('keeps a real reserve of the configured size', async () => {
    watch.start(2);
    await waitUntil(() => watch.getStatus().currentReserveBytes === 2 * MIB);
    const { blocks } = statSync(join(dataDir, '.reserve'));
    expect(blocks * 512).toBeGreaterThanOrEqual(2 * MIB);
    // content that a file system cannot compress
    expect(new Set(readFileSync(join(dataDir, '.reserve')).subarray(0, 4096)).size).toBeGreaterThan(200);
    await watch.stop();
    watch = createMonitor();
    watch.start(1);
    await waitUntil(() => watch.getStatus().currentReserveBytes === MIB);
    expect(log.lines).toEqual([]);
  });

  it('creates no reserve without free space of twice its size', async () => {
    free = 3 * MIB;
    watch.start(2);
    await watch.stop();
    expect(watch.getStatus()).toEqual({
      state: 'ok',
      freeBytes: 3 * MIB,
      reserveBytes: 2 * MIB,
      currentReserveBytes: 0,
    });
  });

  it('accepts changes again once deletions left space inside the file, and creates the reserve when the disk has space', async () => {
    watch.start(2);
    await waitUntil(() => watch.getStatus().currentReserveBytes === 2 * MIB);
    free = 5 * MIB;
    watch.handleError(failure('SQLITE_FULL'));
    expect(watch.getStatus()).toMatchObject({ state: 'full', currentReserveBytes: 0 });
    expect(() => watch.assertDiskSpace()).toThrow(
      expect.objectContaining({ kind: 'unavailable', reason: 'storage_full', retryAfterMs: 10_000 }),
    );
    reusable = 20 * MIB;
    await log.until('disk.recovered');
    expect(() => watch.assertDiskSpace()).not.toThrow();
    expect(watch.getStatus().currentReserveBytes).toBe(0);
    free = 50 * MIB;
    await waitUntil(() => watch.getStatus().currentReserveBytes === 2 * MIB);
  });

  it('is still full after a restart', async () => {
    watch.start(1);
    await waitUntil(() => watch.getStatus().currentReserveBytes === MIB);
    free = 0;
    watch.handleError(failure('SQLITE_FULL'));
    await watch.stop();
    watch = createMonitor();
    watch.start(1);
    expect(watch.getState()).toBe('full');
    free = 100 * MIB;
    await waitUntil(() => watch.getState() === 'ok' && watch.getStatus().currentReserveBytes === MIB);
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
  ])('reports %s with %i bytes free for %s', (code, bytes, state) => {
    free = bytes;
    watch.handleError(failure(code));
    expect(watch.getState()).toBe(state);
  });

  it('accepts changes again once the disk is writable again', async () => {
    watch.handleError(failure('SQLITE_READONLY'));
    expect(() => watch.assertDiskSpace()).toThrow(expect.objectContaining({ reason: 'storage_read_only' }));
    watch.start(0);
    await log.until('disk.recovered');
    expect(watch.getState()).toBe('ok');
  });

  it.each(['53100', 'SQLITE_READONLY'])(
    'rejects changes after %s until the database itself accepts a write again',
    async (code) => {
      takes = false;
      watch.start(0);
      watch.handleError(failure(code));
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(watch.getState()).not.toBe('ok');
      takes = true;
      await log.until('disk.recovered');
      expect(watch.getState()).toBe('ok');
    },
  );

  it.each([
    ['SQLITE_FULL', 0],
    ['SQLITE_READONLY', 100 * MIB],
  ])('does not alternate where %s is repeated each time', async (code, bytes) => {
    [free, reusable] = [bytes, 5 * MIB];
    let time = 0;
    watch = createMonitor({ monotonic: () => time });
    watch.start(0);
    for (let check = 0; check < 100; check += 1) {
      watch.handleError(failure(code));
      await new Promise((resolve) => setTimeout(resolve, 2));
      time += 2;
    }
    expect(log.of('disk.recovered').length).toBeLessThan(bytes === 0 ? 1 : 8);
  });

  it('completes a reserve that a stop left incomplete', async () => {
    writeFileSync(join(dataDir, '.reserve'), 'x');
    truncateSync(join(dataDir, '.reserve'), 300_000);
    watch.start(1);
    await waitUntil(() => watch.getStatus().currentReserveBytes === MIB);
    expect(log.lines).toEqual([]);
  });
});
