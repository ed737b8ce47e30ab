import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findSnapshotCorruption, SQLITE_FILE } from '../database';
import { DomainError } from '../kernel/errors';
import { getAvailableBytes } from '../kernel/availableBytes';
import { silentLogger } from '../kernel/logger';
import { formatMessage } from '../kernel/errorUtils';
import { findMediaOwner } from '../media';
import { type BackupFile, listBackups, selectOwnBackups } from './backupFiles';
import { readManifest, unpackBackup } from './unpackBackup';

/** The time limit for checking all backups, in milliseconds. */
const MAX_DURATION_MS = 30_000;
/** Checking a database of this size takes 3 to 10 s, during which it cannot be stopped. */
const MAX_DATABASE_BYTES = 1024 * 1024 * 1024;

const OTHER_COPIES_HINT = 'look for other copies of this machine';

/**
 * Extends `database_corrupt` with the newest usable backup of this installation and the command that restores it.
 * Checks one backup after the other in `dir`, newest first, for about 30 s. Any other error is returned unchanged.
 * Never throws.
 */
export async function withBackupHint(error: unknown, dir: string, dataDir: string): Promise<unknown> {
  if (!(error instanceof DomainError) || error.reason !== 'database_corrupt') return error;
  return new DomainError(error.kind, error.reason, `${error.message}: ${await describeBackups(dir, dataDir)}`, {
    cause: error.cause,
  });
}

/** Describes the newest usable backup, or why none is known, as the end of an error message. */
async function describeBackups(dir: string, dataDir: string): Promise<string> {
  try {
    // The installation id is in the database, which cannot be read.
    const { backups, isUnclear } = selectOwnBackups(listBackups(dir), findMediaOwner(dataDir));
    if (isUnclear)
      return `the backups in ${dir} belong to several installations, and the data folder does not say which of them it is; "plantroom backup list --dir ${dir}" shows them: restore the newest one of this installation`;
    return await describeNewestUsable(backups, dir);
  } catch (error) {
    return `the backups in ${dir} cannot be read (${formatMessage(error)})`;
  }
}

/**
 * Checks the backups, newest first, until one is usable, and describes it. An encrypted backup, and one that cannot be
 * checked in time, counts as usable.
 */
async function describeNewestUsable(backups: readonly BackupFile[], dir: string): Promise<string> {
  const signal = AbortSignal.timeout(MAX_DURATION_MS);
  const corruptFiles: string[] = [];
  for (const backup of backups) {
    if (backup.isEncrypted) return formatBackupHint(backup, 'it is encrypted, so it was not checked', corruptFiles);
    try {
      return formatBackupHint(backup, await checkBackup(backup.file, dir, signal), corruptFiles);
    } catch {
      if (signal.aborted)
        return formatBackupHint(backup, 'it is too large to be checked completely within 30 s', corruptFiles);
      corruptFiles.push(backup.file);
    }
  }
  return corruptFiles.length === 0
    ? `there is no backup of this installation in ${dir}; ${OTHER_COPIES_HINT}`
    : `every backup of this installation in ${dir} is corrupt too; ${OTHER_COPIES_HINT}`;
}

/**
 * Checks the checksums of a backup, and its database if there is disk space to unpack it. Returns what was checked, as
 * a clause. Throws if the backup is corrupt.
 */
async function checkBackup(file: string, dir: string, signal: AbortSignal): Promise<string> {
  const { members } = await readManifest(file);
  const bytes = members.find(({ path }) => path === SQLITE_FILE)?.bytes;
  const tempRoot =
    bytes === undefined || bytes > MAX_DATABASE_BYTES
      ? undefined
      : [dir, tmpdir()].find((folder) => canUnpackInto(folder, bytes));
  if (tempRoot === undefined) {
    await unpackBackup(file, undefined, { signal });
    return 'all its checksums are right; its database was not checked';
  }
  const folder = mkdtempSync(join(tempRoot, '.plantroom-check-'));
  try {
    await unpackBackup(file, folder, { signal, isWanted: (path) => path === SQLITE_FILE });
    const corruption = await findSnapshotCorruption(folder, { log: silentLogger });
    if (corruption !== undefined) throw new Error(corruption);
    return 'all its checksums are right, and its database is intact';
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Whether a database of this size can be unpacked into a folder: this user can write the folder, and twice the size is
 * free, so that the check never fills the disk. Unknown free space counts as enough.
 */
function canUnpackInto(folder: string, databaseBytes: number): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return (getAvailableBytes(folder) ?? Infinity) > 2 * databaseBytes;
  } catch {
    return false;
  }
}

/** Names the backup and the command that restores it. `corruptFiles`: newer backups that cannot be used. */
function formatBackupHint({ file, createdAt }: BackupFile, state: string, corruptFiles: readonly string[]): string {
  const skipped = corruptFiles.length === 0 ? '' : ` (newer ones are corrupt: ${corruptFiles.join(', ')})`;
  return `the newest usable backup was made at ${new Date(createdAt).toISOString()}, ${state}${skipped}: move this data folder away, then run: plantroom restore ${file}`;
}
