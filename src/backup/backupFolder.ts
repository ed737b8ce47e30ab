import { existsSync, linkSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { getDatabaseBytes } from '../database';
import { DomainError } from '../kernel/errors';
import { formatMib, getAvailableBytes } from '../kernel/availableBytes';
import { chownToParent } from '../kernel/chownToParent';
import { getCode } from '../kernel/errorUtils';
import { sumMediaBytes } from '../media';
import { formatBackupName } from './backupFiles';
import type { BackupRequest, BackupSource } from './backupRequest';

/** The lock file in the data folder for making a backup. */
export const BACKUP_LOCK = 'backup.lock';

/** The space that is needed in addition to the files. */
const SPARE_BYTES = 16 * 1024 * 1024;

/**
 * Creates the backup folder, accessible only to its owner: this user, or the owner of the parent folder if the process
 * runs as root. An existing folder is not changed. Does not create its parents, which are missing if a disk is not
 * mounted. Throws `backup_folder_unusable`.
 */
export function createBackupFolder(folder: string): void {
  if (existsSync(folder)) {
    assertIsFolder(folder);
    return;
  }
  try {
    mkdirSync(folder, { mode: 0o700 });
    chownToParent(folder);
  } catch (error) {
    const reason =
      getCode(error) === 'ENOENT'
        ? `its parent folder ${dirname(folder)} does not exist. Check that its disk is mounted, or create it`
        : `it cannot be created (${getCode(error)}). Let this user write ${dirname(folder)}, or choose another folder`;
    throw folderUnusable(folder, reason, error);
  }
}

/** Throws `backup_folder_unusable` if it is a file. */
function assertIsFolder(folder: string): void {
  if (!statSync(folder).isDirectory()) throw folderUnusable(folder, 'it is a file. Choose a folder');
}

/**
 * Throws `insufficient_space` unless the folder has space for the largest possible copy of the database together with
 * the backup.
 */
export async function assertFreeSpace({ open, db }: BackupSource, folder: string): Promise<void> {
  const needed = 2 * (await getDatabaseBytes(open, db)) + (await sumMediaBytes(db)) + SPARE_BYTES;
  const free = getAvailableBytes(folder);
  if (free === undefined || free >= needed) return;
  throw new DomainError(
    'conflict',
    'insufficient_space',
    `too little disk space for a backup in ${folder}: ${formatMib(needed)} are needed while it is made, ${formatMib(free)} are free. Free some space there, or choose a folder on another disk`,
  );
}

/** Throws `backup_exists` if the requested name exists. */
export function assertNameUnused({ folder, name }: BackupRequest): void {
  if (name !== undefined && existsSync(join(folder, name))) throw backupExists(join(folder, name));
}

/**
 * Renames a finished backup to its final name without overwriting a file, and returns its path. Throws `backup_exists`.
 */
export function moveToFinalName(
  tempFile: string,
  { folder, name, passphrase }: BackupRequest,
  createdAt: number,
  installationId: string,
): string {
  // Without a requested name: the one with seconds, and if that exists, the one with milliseconds.
  const names =
    name === undefined
      ? [false, true].map((isExact) => formatBackupName(createdAt, installationId, passphrase !== undefined, isExact))
      : [name];
  const file = names.map((candidate) => join(folder, candidate)).find((candidate) => tryMove(tempFile, candidate));
  if (file === undefined) throw backupExists(join(folder, names[0] as string));
  return file;
}

/**
 * Gives the file its final name; returns false if such a file already exists. It creates a link, because a rename would
 * overwrite that file.
 */
function tryMove(tempFile: string, file: string): boolean {
  try {
    linkSync(tempFile, file);
    rmSync(tempFile);
  } catch (error) {
    if (getCode(error) === 'EEXIST' || existsSync(file)) return false;
    renameSync(tempFile, file); // a file system without links, for example of a camera or a network share
  }
  return true;
}

/** Creates the error `backup_exists`. */
function backupExists(file: string): DomainError {
  return new DomainError(
    'already_exists',
    'backup_exists',
    `${file} already exists, and backups are never overwritten: choose another name`,
  );
}

/** Creates the error `backup_folder_unusable`. `reason`: a clause that says why, and what to do. */
function folderUnusable(folder: string, reason: string, cause?: unknown): DomainError {
  return new DomainError('conflict', 'backup_folder_unusable', `backups cannot be stored in ${folder}: ${reason}`, {
    cause,
  });
}
