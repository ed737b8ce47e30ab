import { readdirSync, statSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** A backup in the folder of backups. */
export interface BackupFile {
  /** Its whole path. */
  readonly file: string;
  readonly bytes: number;
  /** When its database was copied, as its name says; Unix milliseconds. */
  readonly createdAt: number;
  readonly isEncrypted: boolean;
  /** Whose it is, as its name says. */
  readonly installationId: string;
}

const NAME = /^plantroom-(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)(\.\d{3})?Z-([A-Za-z0-9-]{1,64})\.tar\.zst(\.age)?$/;

/**
 * The name of a backup, without a character that a file system or a shell would not take: `plantroom-2026-11-22T02-30-00Z-<installation>.tar.zst`.
 * `isExact`: with milliseconds, for the second one of a second.
 */
export function backupName(createdAt: number, installationId: string, isEncrypted: boolean, isExact = false): string {
  const time = new Date(createdAt).toISOString();
  return `plantroom-${(isExact ? time : time.replace(/\.\d+/, '')).replaceAll(':', '-')}-${installationId}.tar.zst${isEncrypted ? '.age' : ''}`;
}

/** Where the backup of an installation grows, in the folder of backups; only while one is made, or where it was killed. */
export function tempFolderOf(dir: string, installationId: string): string {
  return join(dir, `.plantroom-backup-${installationId}`);
}

/** The backups in a folder, newest first; only whole ones, which bear their name. None if there is no such folder. Throws the errors of the file system. */
export function listBackups(dir: string): readonly BackupFile[] {
  const found = namesIn(dir).flatMap((name) => findBackup(dir, name) ?? []);
  return found.toSorted((one, other) => other.createdAt - one.createdAt || (other.file < one.file ? -1 : 1));
}

/** The backups of a folder that are of one installation. */
export interface OwnBackups {
  /** Newest first; none where it is not known whose they are. */
  readonly backups: readonly BackupFile[];
  /** More than one installation keeps its backups there, and it is not known which of them this is. */
  readonly isUnclear: boolean;
}

/** Of the backups (newest first) those of an installation; undefined: it is not known which one it is, as where its database cannot be read. */
export function ownBackups(backups: readonly BackupFile[], installationId: string | undefined): OwnBackups {
  if (installationId !== undefined) return { backups: backups.filter((one) => one.installationId === installationId), isUnclear: false };
  const isUnclear = new Set(backups.map((one) => one.installationId)).size > 1;
  return { backups: isUnclear ? [] : backups, isUnclear };
}

/** Those without the ones that are dated later than `now` (Unix milliseconds): they were made while the clock was ahead, and say nothing of what is new. */
export function upTo<Backup extends Pick<BackupFile, 'createdAt'>>(backups: readonly Backup[], now: number): readonly Backup[] {
  return backups.filter(({ createdAt }) => createdAt <= now);
}

/** The backups of an installation in a folder, newest first, without holding up anybody meanwhile. Rejects with the errors of the file system. */
export async function findBackupsOf(dir: string, installationId: string): Promise<readonly BackupFile[]> {
  const names = (await readdir(dir)).filter((name) => readBackupName(name)?.installationId === installationId);
  const found = await Promise.all(names.map(async (name) => await lookAt(join(dir, name), readBackupName(name))));
  return found.filter((one) => one !== undefined).toSorted((one, other) => other.createdAt - one.createdAt);
}

/** Undefined: it was removed meanwhile, or is no file. */
async function lookAt(file: string, said: ReturnType<typeof readBackupName>): Promise<BackupFile | undefined> {
  const found = await stat(file).catch(() => undefined);
  return said && found?.isFile() === true ? { file, bytes: found.size, ...said } : undefined;
}

function findBackup(dir: string, name: string): BackupFile | undefined {
  const said = readBackupName(name);
  const file = join(dir, name);
  const stat = said && statSync(file, { throwIfNoEntry: false });
  return said && stat?.isFile() === true ? { file, bytes: stat.size, ...said } : undefined;
}

/** What the name of a backup says; undefined: it is no such name. */
export function readBackupName(name: string): Omit<BackupFile, 'file' | 'bytes'> | undefined {
  const [, day, hour, minute, second, millisecond = '', installationId = '', age] = NAME.exec(name) ?? [];
  const createdAt = Date.parse(`${day}T${hour}:${minute}:${second}${millisecond}Z`);
  return Number.isNaN(createdAt) ? undefined : { createdAt, isEncrypted: age !== undefined, installationId };
}

function namesIn(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
