import { existsSync, linkSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { databaseBytes } from '../../database';
import { DomainError } from '../../kernel/errors';
import { freeBytes } from '../../kernel/freeBytes';
import { giveToOwner } from '../../kernel/giveToOwner';
import { codeOf } from '../../kernel/thrown';
import { pictureBytes } from '../../media';
import { backupName } from './backupFiles';
import type { BackupOrder, BackupSource } from './backupOrder';

/** The file in the data folder that whoever makes a backup has for itself. */
export const BACKUP_LOCK = 'backup.lock';

/** What is needed beside the files themselves. */
const SPARE_BYTES = 16 * 1024 * 1024;

/** Makes the folder of backups, for this user only; not those above it: where a disk is not mounted they are missing. Throws `backup_folder_unusable`. */
export function makeFolder(folder: string): void {
  if (existsSync(folder)) return requireFolder(folder);
  try {
    mkdirSync(folder, { mode: 0o700 });
    giveToOwner(folder);
  } catch (error) {
    const why = codeOf(error) === 'ENOENT' ? `there is no folder ${dirname(folder)} to make it in; see that its disk is mounted, or make it` : `it cannot be made (${codeOf(error)}); let this user write ${dirname(folder)}, or give another folder`;
    throw unusable(folder, why, error);
  }
}

function requireFolder(folder: string): void {
  if (!statSync(folder).isDirectory()) throw unusable(folder, 'it is a file; give a folder');
}

/** Throws `backup_no_room` unless the copy of the database and the backup beside it have room in the folder, as large as they can get. */
export async function requireRoom({ open, db }: BackupSource, folder: string): Promise<void> {
  const needed = 2 * (await databaseBytes(open, db)) + (await pictureBytes(db)) + SPARE_BYTES;
  const free = freeBytes(folder);
  if (free === undefined || free >= needed) return;
  throw new DomainError('conflict', 'backup_no_room', `there is too little room for a backup in ${folder}: ${mib(needed)} are needed while it is made, ${mib(free)} are free; make room there, or give a folder on another disk`);
}

/** Throws `backup_exists` where the name that is wanted is taken. */
export function requireFreeName({ folder, name }: BackupOrder): void {
  if (name !== undefined && existsSync(join(folder, name))) throw taken(join(folder, name));
}

/** Gives a backup that was made its name, over no other file, and names it. Throws `backup_exists`. */
export function nameBackup(part: string, { folder, name, passphrase }: BackupOrder, createdAt: number, installationId: string): string {
  const names = name === undefined ? [false, true].map((isExact) => backupName(createdAt, installationId, passphrase !== undefined, isExact)) : [name];
  const file = names.map((one) => join(folder, one)).find((one) => isMoved(part, one));
  if (file === undefined) throw taken(join(folder, names[0] as string));
  return file;
}

/** False: there is such a file already, perhaps since a moment ago. */
function isMoved(part: string, file: string): boolean {
  try {
    linkSync(part, file);
    rmSync(part);
  } catch (error) {
    if (codeOf(error) === 'EEXIST' || existsSync(file)) return false;
    renameSync(part, file); // a disk without links, as of a camera or of another machine
  }
  return true;
}

function taken(file: string): DomainError {
  return new DomainError('already_exists', 'backup_exists', `${file} is there already, and a backup is never written over; give another name`);
}

function unusable(folder: string, why: string, cause?: unknown): DomainError {
  return new DomainError('conflict', 'backup_folder_unusable', `backups cannot be kept in ${folder}: ${why}`, { cause });
}

function mib(bytes: number): string {
  return `${Math.ceil(bytes / 1024 / 1024)} MiB`;
}
