import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { formatBackupName, BackupSchedule, type BackupScheduleOptions, selectOutdatedBackups } from '../../src/backup';
import { findScheduleError, getMaxInterval } from '../../src/kernel/cronSchedule';
import { MemoryLog } from '../support/edge';
import { TestClock } from '../support/testClock';

const DAY = 86_400_000;
const INSTALLATION = 'installation-1';

/**
 * Replaces `plantroom backup`: creates the file that its first argument names, with the size of the second argument.
 */
const CREATE_FILE =
  "const [, file, size] = process.argv; require('node:fs').writeFileSync(file, 'x'.repeat(size)); console.log(JSON.stringify({ file, bytes: Number(size), removed: ['old'], warnings: ['mind this'] }));";
const FAILS = "console.error('plantroom: the disk is away'); process.exitCode = 1;";
const NEVER_ENDS =
  "process.on('SIGTERM', () => {}); require('node:fs').writeFileSync(process.argv[1], String(process.pid)); setInterval(() => {}, 1000);";

const until = async (holds: () => boolean): Promise<void> => {
  for (let left = 1000; !holds(); left--) {
    if (left === 0) throw new Error('it never came');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};

const newestFirst = (at: readonly number[]): { createdAt: number }[] =>
  at.toSorted((one, other) => other - one).map((createdAt) => ({ createdAt }));

describe('the schedule of backups', () => {
  let folder: string;
  let clock: TestClock;
  let log: MemoryLog;
  const running: BackupSchedule[] = [];
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'schedule-'));
    clock = new TestClock(Date.UTC(2026, 10, 22, 12, 0, 0));
    log = new MemoryLog();
  });
  afterEach(async () => {
    for (const schedule of running.splice(0)) await schedule.stop();
    rmSync(folder, { recursive: true });
  });

  const getFile = (at: number): string => join(folder, formatBackupName(at, INSTALLATION, false));
  const run = (
    script: string,
    args: readonly string[],
    options: Partial<BackupScheduleOptions> = {},
  ): BackupSchedule => {
    const command = { file: process.execPath, args: ['-e', script, ...args], env: {} };
    const schedule = new BackupSchedule({
      schedule: '30 2 * * *',
      dir: folder,
      dataDir: folder,
      installationId: INSTALLATION,
      command,
      clock,
      log,
      startDelayMs: 0,
      checkIntervalMs: 1,
      ...options,
    });
    running.push(schedule);
    schedule.start();
    return schedule;
  };
  it('makes up for a missed one, then waits for the next, for any change of the clock', async () => {
    writeFileSync(getFile(clock.now() - 2 * DAY), 'old');
    run(CREATE_FILE, [getFile(clock.now()), '7']);
    await log.until('backup.created');
    expect(log.of('backup.created')).toEqual([
      { file: getFile(clock.now()), bytes: 7, removed: 1, duration_ms: expect.any(Number) as number },
    ]);
    expect(log.of('backup.incomplete')).toEqual([{ message: 'mind this' }]);
    clock.advance(400 * DAY); // forward by a year: one backup, not one for each day
    await log.until('backup.created', 2);
    clock.advance(DAY);
    await log.until('backup.created', 3);
    expect(log.of('backup.failed')).toEqual([]);
  });

  it('creates none when the newest is recent enough, and ignores those that are dated in the future', async () => {
    writeFileSync(getFile(clock.now() - 3_600_000), 'young');
    let clockReads = 0;
    const countingClock = { now: () => (clockReads++, clock.now()), monotonic: () => clock.monotonic() };
    const young = run(CREATE_FILE, [getFile(clock.now()), '1'], { clock: countingClock });
    await until(() => clockReads > 3);
    clock.advance(3_600_000);
    const readsBefore = clockReads;
    await until(() => clockReads > readsBefore + 3);
    expect(log.of('backup.created')).toEqual([]);
    await young.stop();
    writeFileSync(getFile(clock.now() + 4000 * DAY), 'from the future');
    clock.advance(DAY);
    run(CREATE_FILE, [getFile(clock.now()), '1']);
    await log.until('backup.created');
    expect(log.of('backup.created')).toHaveLength(1);
  });

  it('creates none while the clock is doubted, and makes up for it afterwards', async () => {
    let clockChecks = 0;
    writeFileSync(getFile(clock.now() - 2 * DAY), 'old');
    run(CREATE_FILE, [getFile(clock.now()), '7'], {
      isClockUnreliable: () => (clockChecks += 1) < 20,
    });
    await until(() => clockChecks >= 10);
    expect(log.of('backup.created')).toEqual([]);
    await log.until('backup.created');
  });

  it('reports a failed one, and retries when the next is due', async () => {
    run(FAILS, []);
    await log.until('backup.failed');
    expect(log.of('backup.failed')).toMatchObject([{ message: 'the disk is away' }]);
    clock.advance(DAY);
    await log.until('backup.failed', 2);
    expect(log.of('backup.failed')[1]).toMatchObject({ message: 'the disk is away' });
  });

  it('cancels one that does not finish, and reports it', async () => {
    run('setInterval(() => {}, 1000)', [], { maxDurationMs: 50 });
    await log.until('backup.failed');
    expect(log.of('backup.failed')).toMatchObject([
      { message: expect.stringContaining('was terminated: the command exited with SIGTERM') as string },
    ]);
  });

  it('reports when the program cannot be started', async () => {
    run('', [], { command: { file: join(folder, 'none'), args: [], env: {} } });
    await log.until('backup.failed');
    expect(String(log.of('backup.failed')[0]?.['message'])).toContain('ENOENT');
  });

  it('cancels a running backup when the server stops, even one that ignores the signal', async () => {
    const schedule = run(NEVER_ENDS, [join(folder, 'pid')]);
    await until(() => readdirSync(folder).includes('pid') && readFileSync(join(folder, 'pid'), 'utf8') !== '');
    await schedule.stop();
    expect(() => process.kill(Number(readFileSync(join(folder, 'pid'), 'utf8')), 0)).toThrow('ESRCH');
    expect(log.of('backup.failed')).toEqual([]);
  });

  it('removes at the start what a killed one left, also where no schedule is set', async () => {
    mkdirSync(join(folder, `.plantroom-backup-${INSTALLATION}`));
    mkdirSync(join(folder, '.plantroom-backup-another'));
    run('', [], { schedule: 'off' });
    await log.until('backup.partial_removed');
    expect(readdirSync(folder).filter((name) => name.startsWith('.'))).toEqual(['.plantroom-backup-another']);
  });

  it('is rejected where no time matches', () => {
    expect(
      ['off', '30 2 * * *', '*/5 0-6 1,15 * MON-FRI', '0 0 29 2 *'].map((text) => findScheduleError(text)),
    ).toEqual([undefined, undefined, undefined, undefined]);
    for (const text of ['61 2 * * *', 'a b c d e', '0 0 * * 9', '- - - - -'])
      expect(findScheduleError(text)).toMatch(/^must be "off" or a cron expression/);
    expect(findScheduleError('0 0 31 2 *')).toMatch(/^matches no future time/);
    expect(getMaxInterval('0 2 * * 1', clock.now())).toBe(7 * DAY);
  });
});

describe('the rotation', () => {
  const times = fc.uniqueArray(fc.integer({ min: Date.UTC(2024, 0, 1), max: Date.UTC(2027, 0, 1) }), {
    maxLength: 120,
  });
  const keep = fc.record({
    keepDaily: fc.integer({ min: 1, max: 20 }),
    keepWeekly: fc.integer({ min: 0, max: 10 }),
    keepMonthly: fc.integer({ min: 0, max: 10 }),
  });

  /** No clock is later than this. */
  const NEVER = Infinity;
  it('keeps the newest, no more than the limit, and keeps the same ones until a new backup exists', () => {
    fc.assert(
      fc.property(times, keep, (at, kept) => {
        const all = newestFirst(at);
        const outdated = new Set(selectOutdatedBackups(all, kept, NEVER));
        const left = all.filter((one) => !outdated.has(one));
        expect(left[0]).toBe(all[0]);
        expect(left.length).toBeLessThanOrEqual(kept.keepDaily + kept.keepWeekly + kept.keepMonthly);
        expect(selectOutdatedBackups(left, kept, NEVER)).toEqual([]);
        const days = new Set(all.map(({ createdAt }) => new Date(createdAt).toDateString()));
        expect(new Set(left.map(({ createdAt }) => new Date(createdAt).toDateString())).size).toBeGreaterThanOrEqual(
          Math.min(kept.keepDaily, days.size),
        );
      }),
      { numRuns: 200 },
    );
  });

  it('ignores backups of the future, and keeps the same others as without them', () => {
    fc.assert(
      fc.property(times, times, keep, (at, later, kept) => {
        const now = Date.UTC(2027, 0, 1);
        const past = newestFirst(at);
        const all = newestFirst([...at, ...later.map((time) => time + 4 * 365 * DAY)]);
        const [outdated, without] = [selectOutdatedBackups(all, kept, now), selectOutdatedBackups(past, kept, now)];
        expect(outdated.map(({ createdAt }) => createdAt)).toEqual(without.map(({ createdAt }) => createdAt));
      }),
      { numRuns: 100 },
    );
  });

  it('leaves seven days, four weeks and six months of a year of daily backups', () => {
    const year = newestFirst(Array.from({ length: 365 }, (_, day) => new Date(2026, 0, day + 1, 2, 30).getTime()));
    const outdated = new Set(selectOutdatedBackups(year, { keepDaily: 7, keepWeekly: 4, keepMonthly: 6 }, NEVER));
    const left = year
      .filter((one) => !outdated.has(one))
      .map(({ createdAt }) => new Date(createdAt))
      .map((at) => `${at.getMonth() + 1}-${at.getDate()}`);
    expect(left).toEqual([
      '12-31',
      '12-30',
      '12-29',
      '12-28',
      '12-27',
      '12-26',
      '12-25',
      '12-20',
      '12-13',
      '11-30',
      '10-31',
      '9-30',
      '8-31',
      '7-31',
    ]);
  });
});
