import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findSnapshotDamage, SQLITE_FILE } from '../database';
import { DomainError } from '../kernel/errors';
import { freeBytes } from '../kernel/freeBytes';
import { silentLogger } from '../kernel/logger';
import { messageOf } from '../kernel/thrown';
import { findMediaOwner } from '../media';
import { type BackupFile, listBackups, ownBackups } from './backup/backupFiles';
import { readManifest, unpackBackup } from './backup/unpackBackup';

/** Looking through backups may take so long altogether, in milliseconds. */
const LONGEST_MS = 30_000;
/** A database of this size is looked through in 3 to 10 s, in which nothing stops it. */
const MOST_DATABASE_BYTES = 1024 * 1024 * 1024;

const ELSEWHERE = 'look where else copies of this machine are kept';

/**
 * Of `database_damaged`: the same with the newest good backup of this installation and the command that restores it, looking through one
 * after the other in `dir`, newest first, for some 30 s. Any other error as it is. Never throws.
 */
export async function withGoodBackup(error: unknown, dir: string, dataDir: string): Promise<unknown> {
  if (!(error instanceof DomainError) || error.reason !== 'database_damaged') return error;
  return new DomainError(error.kind, error.reason, `${error.message}: ${await adviceOf(dir, dataDir)}`, { cause: error.cause });
}

async function adviceOf(dir: string, dataDir: string): Promise<string> {
  try {
    // The database would say which installation this is, and cannot be read.
    const { backups, isUnclear } = ownBackups(listBackups(dir), findMediaOwner(dataDir));
    if (isUnclear) return `the backups in ${dir} are of more than one installation, and the data folder does not say which of them it is; "plantroom backup list --dir ${dir}" shows them: restore the newest one of this installation`;
    return await newestGood(backups, dir);
  } catch (error) {
    return `the backups in ${dir} cannot be read (${messageOf(error)})`;
  }
}

async function newestGood(backups: readonly BackupFile[], dir: string): Promise<string> {
  const signal = AbortSignal.timeout(LONGEST_MS);
  const damaged: string[] = [];
  for (const backup of backups) {
    if (backup.isEncrypted) return told(backup, 'it is encrypted, so nobody looked inside', damaged);
    try {
      return told(backup, await lookThrough(backup.file, dir, signal), damaged);
    } catch {
      if (signal.aborted) return told(backup, 'it is so large that not all of it was looked at', damaged);
      damaged.push(backup.file);
    }
  }
  return damaged.length === 0 ? `there is no backup of this installation in ${dir}; ${ELSEWHERE}` : `every backup of this installation in ${dir} is damaged, too; ${ELSEWHERE}`;
}

/** What was looked at. Throws where it is damaged. */
async function lookThrough(file: string, dir: string, signal: AbortSignal): Promise<string> {
  const { members } = await readManifest(file);
  const bytes = members.find(({ path }) => path === SQLITE_FILE)?.bytes;
  const room = bytes === undefined || bytes > MOST_DATABASE_BYTES ? undefined : [dir, tmpdir()].find((folder) => hasRoom(folder, bytes));
  if (room === undefined) {
    await unpackBackup(file, undefined, { signal });
    return 'all its checksums are right, and nobody looked into its database';
  }
  const folder = mkdtempSync(join(room, '.plantroom-look-'));
  try {
    await unpackBackup(file, folder, { signal, isWanted: (path) => path === SQLITE_FILE });
    const damage = await findSnapshotDamage(folder, { log: silentLogger });
    if (damage !== undefined) throw new Error(damage);
    return 'all its checksums are right, and its database is whole';
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Whether a database of that size can be laid there. */
function hasRoom(folder: string, bytes: number): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return (freeBytes(folder) ?? Infinity) > 2 * bytes;
  } catch {
    return false;
  }
}

function told({ file, createdAt }: BackupFile, state: string, damaged: readonly string[]): string {
  const passed = damaged.length === 0 ? '' : ` (newer ones are damaged: ${damaged.join(', ')})`;
  return `the newest good one is of ${new Date(createdAt).toISOString()}, ${state}${passed}; move this data folder aside, then run: plantroom restore ${file}`;
}
