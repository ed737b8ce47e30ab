import { constants, existsSync, readFileSync, statSync } from 'node:fs';
import { backupFolderOf } from '../../app';
import type { Config } from '../../config';
import { openDatabase, requireDump, type Database } from '../../database';
import { silentLogger } from '../../kernel/logger';
import { messageOf } from '../../kernel/thrown';
import { findMediaOwner } from '../../media';
import { listBackups, longestInterval, ownBackups, readManifest, scheduleMistake, unpackBackup, upTo, type BackupFile, type PackOptions } from '../../operations';
import { fail, ok, warn, type Finding } from './check';
import { mayLookInto, mayUse, mayWriteInto, mib, nearestExisting } from './pathFacts';

const NIGHTLY = "PLANTROOM_BACKUP_SCHEDULE='30 2 * * *'";
/** Backups up to this size are read all through, of larger ones only the manifest. */
const READ_THROUGH = 32 * 1024 * 1024;
const LONGEST_MS = 1500;
const IN_FULL = '"plantroom backup list --verify" reads all of it';

/** Whether there are backups, where they lie, and whether the newest is whole. */
export async function backups(config: Config): Promise<Finding[]> {
  const { schedule } = config.backup;
  const mistake = scheduleMistake(schedule);
  if (mistake !== undefined) return [fail('backup schedule', `${JSON.stringify(schedule)} ${mistake}`, `set ${NIGHTLY}`)];
  const planned = schedule === 'off' ? warn('backup schedule', 'off: the server makes no backups by itself', `set ${NIGHTLY}`) : ok('backup schedule', schedule);
  return [planned, ...place(config), ...passphrase(config), ...(await newest(config)), ...(await dumpProgram(config))];
}

function place(config: Config): Finding[] {
  const folder = backupFolderOf(config);
  const isScheduled = config.backup.schedule !== 'off';
  const near = nearestExisting(folder);
  const mend = `let the user of the server write ${folder}, or set PLANTROOM_BACKUP_DIR`;
  if (!mayWriteInto(near)) return [isScheduled ? fail('backup folder', `${near} cannot be written by this user`, mend) : warn('backup folder', `${near} cannot be written by this user`, mend)];
  const data = nearestExisting(config.data.dir);
  if (statSync(near).dev === statSync(data).dev) return [warn('backup folder', `${folder} is on the disk of the data folder: both are lost with it`, 'set PLANTROOM_BACKUP_DIR to a folder on another disk, or copy the backups away')];
  return [ok('backup folder', folder)];
}

function passphrase({ backup: { passphraseFile } }: Config): Finding[] {
  if (passphraseFile === '') return [];
  const check = 'backup passphrase';
  if (!mayUse(passphraseFile, constants.R_OK)) return [fail(check, `${passphraseFile} is not there or cannot be read by this user`, 'make it, with the passphrase in its first line, readable for the user of the server alone')];
  if (firstLine(passphraseFile) === '') return [fail(check, `the first line of ${passphraseFile} is empty`, 'write the passphrase there')];
  const mode = statSync(passphraseFile).mode & 0o777;
  const isOpen = process.platform !== 'win32' && (mode & 0o007) !== 0;
  return [isOpen ? warn(check, `every user of this machine may read ${passphraseFile} (mode ${mode.toString(8)})`, `chmod 600 ${passphraseFile}`) : ok(check, `${passphraseFile}; keep a copy of it apart from the backups`)];
}

async function newest(config: Config): Promise<Finding[]> {
  const folder = backupFolderOf(config);
  if (existsSync(folder) && !mayLookInto(folder)) return [warn('newest backup', `${folder} cannot be looked into by this user`, 'run this as the user of the server')];
  if (!existsSync(config.data.dir)) return []; // nothing was ever stored
  const { backups: all, isUnclear } = ownBackups(listBackups(folder), findMediaOwner(config.data.dir));
  if (isUnclear) return [warn('newest backup', `the backups in ${folder} are of more than one installation, and the data folder does not say which of them it is`, 'start the server once, or give each installation a folder of its own (PLANTROOM_BACKUP_DIR)')];
  const [last] = upTo(all, Date.now());
  if (!last && all[0]) return [warn('newest backup', `${all[0].file} is dated in the future, as are all others: the clock was ahead when they were made`, 'set the clock (NTP), then run "plantroom backup"')];
  if (!last) return [warn('newest backup', `there is none in ${folder}`, 'run "plantroom backup"')];
  return [age(last, config.backup.schedule), await whole(last, config)];
}

function age({ createdAt, file, bytes }: BackupFile, schedule: string): Finding {
  const now = Date.now();
  const interval = longestInterval(schedule, now);
  const found = `of ${new Date(createdAt).toISOString()}, ${mib(bytes)}: ${file}`;
  const isLate = interval !== undefined && now - createdAt > 2 * interval;
  return isLate ? warn('newest backup', `${found}; two more were due since`, 'look for "backup." in the log, then run "plantroom backup"') : ok('newest backup', found);
}

async function whole({ file, bytes, isEncrypted }: BackupFile, { backup: { passphraseFile } }: Config): Promise<Finding> {
  const check = 'backup content';
  const given = passphraseFile !== '' && mayUse(passphraseFile, constants.R_OK) ? firstLine(passphraseFile) : '';
  if (isEncrypted && given === '') return ok(check, 'it is encrypted, and nobody looked inside: no passphrase file is named');
  const signal = AbortSignal.timeout(LONGEST_MS);
  try {
    return await readThrough(file, bytes, { passphrase: given || undefined, signal });
  } catch (error) {
    if (signal.aborted) return ok(check, `there was no time to read all of it; ${IN_FULL}`);
    return fail(check, messageOf(error), 'run "plantroom backup", then see to the disk of the backups');
  }
}

async function readThrough(file: string, bytes: number, options: PackOptions): Promise<Finding> {
  const isSmall = bytes <= READ_THROUGH;
  const { schema, program } = isSmall ? await unpackBackup(file, undefined, options) : await readManifest(file, options.passphrase);
  return ok('backup content', `schema ${schema}, made by ${program.version}; ${isSmall ? 'all checksums are right' : `its manifest can be read; ${IN_FULL}`}`);
}

/** Whether a backup of PostgreSQL can be made. Where the database does not answer, its own check says so. */
async function dumpProgram({ database: { url }, data, backup: { schedule } }: Config): Promise<Finding[]> {
  if (url === '') return [];
  let version: string;
  let opened: Database | undefined;
  try {
    opened = await openDatabase({ url, dataDir: data.dir, log: silentLogger, readOnly: true, poolSize: 2 });
    ({ version } = await opened.describe());
  } catch {
    return [];
  } finally {
    await opened?.close();
  }
  const mend = 'install the client programs of PostgreSQL in the version of its server';
  return [await requireDump(version).then(() => ok('pg_dump', 'present'), (error: unknown) => (schedule === 'off' ? warn('pg_dump', messageOf(error), mend) : fail('pg_dump', messageOf(error), mend)))];
}

function firstLine(file: string): string {
  return readFileSync(file, 'utf8').split(/\r?\n/, 1)[0] ?? '';
}
