import { rmSync } from 'node:fs';
import { syncFolder } from '../../kernel/syncFolder';
import { type BackupFile, listBackups, upTo } from './backupFiles';

/** Of how many days, weeks (from Monday) and months the newest backup is kept, in the time zone of the machine; those without a backup do not count. */
export interface KeptBackups {
  readonly keepDaily: number;
  readonly keepWeekly: number;
  readonly keepMonthly: number;
}

/**
 * Those of the backups (newest first) that need not be kept; never the newest. Those dated later than `now` were made while the clock was
 * ahead: they stay, and take the place of none.
 */
export function outdatedBackups<Backup extends Pick<BackupFile, 'createdAt'>>(backups: readonly Backup[], { keepDaily, keepWeekly, keepMonthly }: KeptBackups, now: number): readonly Backup[] {
  const past = upTo(backups, now);
  const kept = new Set([...past.slice(0, 1), ...newestOfEach(past, dayOf, keepDaily), ...newestOfEach(past, weekOf, keepWeekly), ...newestOfEach(past, monthOf, keepMonthly)]);
  return past.filter((backup) => !kept.has(backup));
}

/** Removes from a folder the backups of the installation that need not be kept, and names them. Throws the errors of the file system. */
export function rotateBackups(dir: string, installationId: string, keep: KeptBackups): readonly string[] {
  const outdated = outdatedBackups(listBackups(dir).filter((backup) => backup.installationId === installationId), keep, Date.now());
  for (const { file } of outdated) rmSync(file, { force: true });
  if (outdated.length > 0) syncFolder(dir);
  return outdated.map(({ file }) => file);
}

function newestOfEach<Backup extends Pick<BackupFile, 'createdAt'>>(backups: readonly Backup[], spanOf: (at: Date) => string, count: number): readonly Backup[] {
  const newest = new Map<string, Backup>();
  for (const backup of backups) {
    const span = spanOf(new Date(backup.createdAt));
    if (!newest.has(span)) newest.set(span, backup);
  }
  return [...newest.values()].slice(0, count);
}

function dayOf(at: Date): string {
  return `${monthOf(at)}-${at.getDate()}`;
}

function weekOf(at: Date): string {
  const daysSinceMonday = (at.getDay() + 6) % 7;
  return dayOf(new Date(at.getFullYear(), at.getMonth(), at.getDate() - daysSinceMonday));
}

function monthOf(at: Date): string {
  return `${at.getFullYear()}-${at.getMonth() + 1}`;
}
