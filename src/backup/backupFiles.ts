import { readdirSync, statSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** A backup in the backup folder. */
export interface BackupFile {
  /** Its absolute path. */
  readonly file: string;
  readonly bytes: number;
  /** When its database was copied, according to its name; Unix milliseconds. */
  readonly createdAt: number;
  readonly isEncrypted: boolean;
  /** The installation that it belongs to, according to its name. */
  readonly installationId: string;
}

const BACKUP_NAME_PATTERN =
  /^plantroom-(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)(\.\d{3})?Z-([A-Za-z0-9-]{1,64})\.tar\.zst(\.age)?$/;

/**
 * Creates the name of a backup, with characters that every file system and shell accepts:
 * `plantroom-2026-11-22T02-30-00Z-<installation>.tar.zst`. `isExact`: with milliseconds, for the second backup within a
 * second.
 */
export function formatBackupName(
  createdAt: number,
  installationId: string,
  isEncrypted: boolean,
  isExact = false,
): string {
  const time = new Date(createdAt).toISOString();
  return `plantroom-${(isExact ? time : time.replace(/\.\d+/, '')).replaceAll(':', '-')}-${installationId}.tar.zst${isEncrypted ? '.age' : ''}`;
}

/**
 * The working folder for a backup of an installation, in the backup folder. It exists only while a backup runs, or
 * after one was killed.
 */
export function getTempFolder(dir: string, installationId: string): string {
  return join(dir, `.plantroom-backup-${installationId}`);
}

/**
 * Lists the backups of all installations in a folder, newest first. A file is a backup if its name matches
 * `plantroom-<time>-<installation>.tar.zst`, and its creation time is the time in that name; backups get this name only
 * when they are complete. The content is not read. Empty: there is no such folder, or it has no backup. Throws the
 * errors of the file system.
 */
export function listBackups(dir: string): readonly BackupFile[] {
  const backups = listNames(dir).flatMap((name) => statBackupSync(dir, name) ?? []);
  return backups.toSorted((a, b) => b.createdAt - a.createdAt || (b.file < a.file ? -1 : 1));
}

/** The backups of one installation in a folder. */
interface OwnBackups {
  /** Newest first; empty if the installation is unknown. */
  readonly backups: readonly BackupFile[];
  /** Several installations store backups there, and it is unknown which of them this is. */
  readonly isUnclear: boolean;
}

/**
 * Selects the backups of one installation, in the given order. An undefined id means that the installation is unknown,
 * for example because its database cannot be read: then all backups are selected if they belong to one installation.
 */
export function selectOwnBackups(backups: readonly BackupFile[], installationId: string | undefined): OwnBackups {
  if (installationId !== undefined)
    return { backups: backups.filter((backup) => backup.installationId === installationId), isUnclear: false };
  const isUnclear = new Set(backups.map((backup) => backup.installationId)).size > 1;
  return { backups: isUnclear ? [] : backups, isUnclear };
}

/**
 * Excludes backups with a date after `now` (Unix milliseconds): they were made while the clock was ahead, and do not
 * show what is new.
 */
export function excludeFutureBackups<Backup extends Pick<BackupFile, 'createdAt'>>(
  backups: readonly Backup[],
  now: number,
): readonly Backup[] {
  return backups.filter(({ createdAt }) => createdAt <= now);
}

/**
 * Lists the backups of an installation in a folder, newest first, without blocking the process. Rejects with the errors
 * of the file system.
 */
export async function findBackupFiles(dir: string, installationId: string): Promise<readonly BackupFile[]> {
  const names = (await readdir(dir)).filter((name) => parseBackupName(name)?.installationId === installationId);
  const backups = await Promise.all(
    names.map(async (name) => await statBackup(join(dir, name), parseBackupName(name))),
  );
  return backups.filter((backup) => backup !== undefined).toSorted((a, b) => b.createdAt - a.createdAt);
}

/** Describes one file; undefined: it was removed in the meantime, or is not a file. */
async function statBackup(file: string, parsed: ReturnType<typeof parseBackupName>): Promise<BackupFile | undefined> {
  const stats = await stat(file).catch(() => undefined);
  return parsed && stats?.isFile() === true ? { file, bytes: stats.size, ...parsed } : undefined;
}

/**
 * Describes one file; undefined: its name is not the name of a backup, it was removed in the meantime, or it is not a
 * file.
 */
function statBackupSync(dir: string, name: string): BackupFile | undefined {
  const parsed = parseBackupName(name);
  const file = join(dir, name);
  const stats = parsed && statSync(file, { throwIfNoEntry: false });
  return parsed && stats?.isFile() === true ? { file, bytes: stats.size, ...parsed } : undefined;
}

/** Parses the name of a backup into its time, installation and encryption; undefined: the file is not a backup. */
function parseBackupName(name: string): Omit<BackupFile, 'file' | 'bytes'> | undefined {
  const [, day, hour, minute, second, millisecond = '', installationId = '', ageSuffix] =
    BACKUP_NAME_PATTERN.exec(name) ?? [];
  // NaN if the name does not match: then `day` and the others are undefined.
  const createdAt = Date.parse(`${day}T${hour}:${minute}:${second}${millisecond}Z`);
  return Number.isNaN(createdAt) ? undefined : { createdAt, isEncrypted: ageSuffix !== undefined, installationId };
}

/** Returns the names in a folder; empty if there is no such folder. */
function listNames(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
