import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { backupName, BackupSchedule, type BackupScheduleOptions, longestInterval, outdatedBackups, scheduleMistake } from '../../src/operations';
import { MemoryLog } from '../support/edge';
import { TestClock } from '../support/testClock';

const DAY = 86_400_000;
const INSTALLATION = 'installation-1';

/** Stands for `plantroom backup`: makes the file that its first argument names, as large as the second says. */
const MAKES = "const [, file, size] = process.argv; require('node:fs').writeFileSync(file, 'x'.repeat(size)); console.log(JSON.stringify({ file, bytes: Number(size), removed: ['old'], warnings: ['mind this'] }));";
const FAILS = "console.error('plantroom: the disk is away'); process.exitCode = 1;";
const NEVER_ENDS = "process.on('SIGTERM', () => {}); require('node:fs').writeFileSync(process.argv[1], String(process.pid)); setInterval(() => {}, 1000);";

const until = async (holds: () => boolean): Promise<void> => {
  for (let left = 1000; !holds(); left--) {
    if (left === 0) throw new Error('it never came');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};

const newestFirst = (at: readonly number[]): { createdAt: number }[] => at.toSorted((one, other) => other - one).map((createdAt) => ({ createdAt }));

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

  const fileOf = (at: number): string => join(folder, backupName(at, INSTALLATION, false));
  const run = (script: string, args: readonly string[], options: Partial<BackupScheduleOptions> = {}): BackupSchedule => {
    const command = { file: process.execPath, args: ['-e', script, ...args], env: {} };
    const schedule = new BackupSchedule({ schedule: '30 2 * * *', dir: folder, dataDir: folder, installationId: INSTALLATION, command, clock, log, settleMs: 0, lookEveryMs: 1, ...options });
    running.push(schedule);
    schedule.start();
    return schedule;
  };
  it('makes up for one that was missed, then waits for the next, whatever the clock does', async () => {
    writeFileSync(fileOf(clock.now() - 2 * DAY), 'old');
    const schedule = run(MAKES, [fileOf(clock.now()), '7']);
    await log.until('backup.made');
    await until(() => schedule.state().bytes === 7);
    expect(log.of('backup.made')).toEqual([{ file: fileOf(clock.now()), bytes: 7, removed: 1, duration_ms: expect.any(Number) as number }]);
    expect(log.of('backup.incomplete')).toEqual([{ message: 'mind this' }]);
    expect(schedule.state()).toMatchObject({ runs: 1, lastMadeAt: clock.now(), lastFailedAt: undefined, lastError: undefined });
    clock.advance(400 * DAY); // forward by a year: one, not one for each day
    await log.until('backup.made', 2);
    clock.advance(DAY);
    await log.until('backup.made', 3);
    expect(schedule.state()).toMatchObject({ runs: 3, nextAt: expect.any(Number) as number });
  });

  it('does not make one when the newest is young enough, and counts none that the clock dates in the future', async () => {
    writeFileSync(fileOf(clock.now() - 3_600_000), 'young');
    const young = run(MAKES, [fileOf(clock.now()), '1']);
    await until(() => young.state().bytes === 5);
    clock.advance(3_600_000);
    await until(() => young.state().lastMadeAt !== undefined);
    expect(young.state().runs).toBe(0);
    await young.stop();
    writeFileSync(fileOf(clock.now() + 4000 * DAY), 'from the future');
    clock.advance(DAY);
    const future = run(MAKES, [fileOf(clock.now()), '1']);
    await log.until('backup.made');
    await until(() => future.state().bytes === 1);
    expect(future.state().runs).toBe(1);
  });

  it('makes none while the clock is doubted, and makes up for it then', async () => {
    let doubts = 0;
    writeFileSync(fileOf(clock.now() - 2 * DAY), 'old');
    const schedule = run(MAKES, [fileOf(clock.now()), '7'], { isClockDoubted: () => (doubts += 1) < 20 });
    await until(() => doubts >= 10);
    expect(schedule.state().runs).toBe(0);
    await log.until('backup.made');
  });

  it('tells of one that failed, and tries again when the next is due', async () => {
    const schedule = run(FAILS, []);
    await log.until('backup.failed');
    expect(schedule.state()).toMatchObject({ runs: 1, lastFailedAt: clock.now(), lastError: 'the disk is away', lastMadeAt: undefined });
    clock.advance(DAY);
    await log.until('backup.failed', 2);
    expect(log.of('backup.failed')[1]).toMatchObject({ message: 'the disk is away' });
  });

  it('ends one that does not come to its end, and says so', async () => {
    const schedule = run('setInterval(() => {}, 1000)', [], { longestMs: 50 });
    await until(() => schedule.state().runningSince === clock.now());
    await log.until('backup.failed');
    expect(schedule.state()).toMatchObject({ runningSince: undefined, lastFailedAt: clock.now(), lastError: expect.stringContaining('was ended: the command ended with SIGTERM') as string });
  });

  it('tells when the program cannot be started', async () => {
    run('', [], { command: { file: join(folder, 'none'), args: [], env: {} } });
    await log.until('backup.failed');
    expect(String(log.of('backup.failed')[0]?.['message'])).toContain('ENOENT');
  });

  it('ends the backup that is being made when the server stops, even one that does not listen', async () => {
    const schedule = run(NEVER_ENDS, [join(folder, 'pid')]);
    await until(() => readdirSync(folder).includes('pid') && readFileSync(join(folder, 'pid'), 'utf8') !== '');
    await schedule.stop();
    expect(() => process.kill(Number(readFileSync(join(folder, 'pid'), 'utf8')), 0)).toThrow('ESRCH');
    expect(log.of('backup.failed')).toEqual([]);
  });

  it('removes at the start what a killed one left, also where nothing is made by itself', async () => {
    mkdirSync(join(folder, `.plantroom-backup-${INSTALLATION}`));
    mkdirSync(join(folder, '.plantroom-backup-another'));
    run('', [], { schedule: 'off' });
    await log.until('backup.half_removed');
    expect(readdirSync(folder).filter((name) => name.startsWith('.'))).toEqual(['.plantroom-backup-another']);
  });

  it('is refused where no time fits', () => {
    expect(['off', '30 2 * * *', '*/5 0-6 1,15 * MON-FRI', '0 0 29 2 *'].map((text) => scheduleMistake(text))).toEqual([undefined, undefined, undefined, undefined]);
    for (const text of ['61 2 * * *', 'a b c d e', '0 0 * * 9', '- - - - -']) expect(scheduleMistake(text)).toMatch(/^must be off, or minute/);
    expect(scheduleMistake('0 0 31 2 *')).toMatch(/^never comes/);
    expect(longestInterval('0 2 * * 1', clock.now())).toBe(7 * DAY);
  });
});

describe('rotation', () => {
  const times = fc.uniqueArray(fc.integer({ min: Date.UTC(2024, 0, 1), max: Date.UTC(2027, 0, 1) }), { maxLength: 120 });
  const keep = fc.record({ keepDaily: fc.integer({ min: 1, max: 20 }), keepWeekly: fc.integer({ min: 0, max: 10 }), keepMonthly: fc.integer({ min: 0, max: 10 }) });

  /** No clock is ahead of it. */
  const NEVER = Infinity;
  it('keeps the newest, no more than it may, and what it kept once as long as nothing new comes', () => {
    fc.assert(
      fc.property(times, keep, (at, kept) => {
        const all = newestFirst(at);
        const outdated = new Set(outdatedBackups(all, kept, NEVER));
        const left = all.filter((one) => !outdated.has(one));
        expect(left[0]).toBe(all[0]);
        expect(left.length).toBeLessThanOrEqual(kept.keepDaily + kept.keepWeekly + kept.keepMonthly);
        expect(outdatedBackups(left, kept, NEVER)).toEqual([]);
        const days = new Set(all.map(({ createdAt }) => new Date(createdAt).toDateString()));
        expect(new Set(left.map(({ createdAt }) => new Date(createdAt).toDateString())).size).toBeGreaterThanOrEqual(Math.min(kept.keepDaily, days.size));
      }),
      { numRuns: 200 },
    );
  });

  it('leaves those of the future alone, and keeps of the others what it would without them', () => {
    fc.assert(
      fc.property(times, times, keep, (at, later, kept) => {
        const now = Date.UTC(2027, 0, 1);
        const past = newestFirst(at);
        const all = newestFirst([...at, ...later.map((time) => time + 4 * 365 * DAY)]);
        const [outdated, without] = [outdatedBackups(all, kept, now), outdatedBackups(past, kept, now)];
        expect(outdated.map(({ createdAt }) => createdAt)).toEqual(without.map(({ createdAt }) => createdAt));
      }),
      { numRuns: 100 },
    );
  });

  it('leaves seven days, four weeks and six months of a year of daily backups', () => {
    const year = newestFirst(Array.from({ length: 365 }, (_, day) => new Date(2026, 0, day + 1, 2, 30).getTime()));
    const outdated = new Set(outdatedBackups(year, { keepDaily: 7, keepWeekly: 4, keepMonthly: 6 }, NEVER));
    const left = year.filter((one) => !outdated.has(one)).map(({ createdAt }) => new Date(createdAt)).map((at) => `${at.getMonth() + 1}-${at.getDate()}`);
    expect(left).toEqual(['12-31', '12-30', '12-29', '12-28', '12-27', '12-26', '12-25', '12-20', '12-13', '11-30', '10-31', '9-30', '8-31', '7-31']);
  });
});
