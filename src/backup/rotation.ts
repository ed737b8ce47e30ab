import { rmSync } from 'node:fs';
import { syncFolder } from '../kernel/syncFolder';
import { type BackupFile, listBackups, excludeFutureBackups } from './backupFiles';

/**
 * The number of days, weeks (from Monday) and months whose newest backup is retained, in the time zone of the machine.
 * Periods without a backup do not count.
 */
interface RetentionPolicy {
  readonly keepDaily: number;
  readonly keepWeekly: number;
  readonly keepMonthly: number;
}

/**
 * Selects the backups to delete; never the newest one. Backups with a date after `now` were made while
 * the clock was ahead: they are retained, and do not count.
 */
export function selectOutdatedBackups<Backup extends Pick<BackupFile, 'createdAt'>>(
  backupsNewestFirst: readonly Backup[],
  { keepDaily, keepWeekly, keepMonthly }: RetentionPolicy,
  now: number,
): readonly Backup[] {
  const pastBackups = excludeFutureBackups(backupsNewestFirst, now);
  const retained = new Set([
    ...pastBackups.slice(0, 1),
    ...pickNewestPerPeriod(pastBackups, formatDay, keepDaily),
    ...pickNewestPerPeriod(pastBackups, formatWeek, keepWeekly),
    ...pickNewestPerPeriod(pastBackups, formatMonth, keepMonthly),
  ]);
  return pastBackups.filter((backup) => !retained.has(backup));
}

/**
 * Deletes the backups of the installation that the policy does not retain from a folder, and returns their paths.
 * Throws the errors of the file system.
 */
export function rotateBackups(dir: string, installationId: string, keep: RetentionPolicy): readonly string[] {
  const outdated = selectOutdatedBackups(
    listBackups(dir).filter((backup) => backup.installationId === installationId),
    keep,
    Date.now(),
  );
  for (const { file } of outdated) rmSync(file, { force: true });
  if (outdated.length > 0) syncFolder(dir);
  return outdated.map(({ file }) => file);
}

/**
 * Returns the newest backup of each period (a day, a week, a month), for the newest `count` periods that have one.
 * `getPeriod` returns a text that identifies the period of a time.
 */
function pickNewestPerPeriod<Backup extends Pick<BackupFile, 'createdAt'>>(
  backupsNewestFirst: readonly Backup[],
  getPeriod: (date: Date) => string,
  count: number,
): readonly Backup[] {
  const newestByPeriod = new Map<string, Backup>();
  for (const backup of backupsNewestFirst) {
    const period = getPeriod(new Date(backup.createdAt));
    if (!newestByPeriod.has(period)) newestByPeriod.set(period, backup);
  }
  return [...newestByPeriod.values()].slice(0, count);
}

function formatDay(date: Date): string {
  return `${formatMonth(date)}-${date.getDate()}`;
}

/** Returns the date of the Monday of that week. */
function formatWeek(date: Date): string {
  const daysSinceMonday = (date.getDay() + 6) % 7;
  return formatDay(new Date(date.getFullYear(), date.getMonth(), date.getDate() - daysSinceMonday));
}

function formatMonth(date: Date): string {
  return `${date.getFullYear()}-${date.getMonth() + 1}`;
}
