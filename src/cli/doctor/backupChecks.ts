import { constants, existsSync, readFileSync, statSync } from 'node:fs';
import { getBackupFolder } from '../../server';
import type { Config } from '../../config';
import { assertPgDumpAvailable } from '../../database';
import { formatMib } from '../../kernel/availableBytes';
import { getMaxInterval } from '../../kernel/cronSchedule';
import { formatMessage } from '../../kernel/errorUtils';
import { findMediaOwner } from '../../media';
import {
  listBackups,
  selectOwnBackups,
  readManifest,
  unpackBackup,
  excludeFutureBackups,
  type BackupFile,
  type PackOptions,
} from '../../backup';
import { fail, ok, warn, type Finding } from './check';
import { readDatabase } from './readDatabase';
import { canReadFolder, canAccess, canWriteFolder, findNearestExisting } from './pathFacts';

const NIGHTLY = "PLANTROOM_BACKUP_SCHEDULE='30 2 * * *'";
/** Smaller backups are read completely; of larger ones only the manifest is read. */
const MAX_FULLY_READ_BYTES = 32 * 1024 * 1024;
const MAX_READ_MS = 1500;
const FULL_CHECK = '"plantroom backup list --verify" verifies all of it';

/** Checks the schedule, the folder and the passphrase of backups, and the age and content of the newest backup. */
export async function checkBackups(config: Config): Promise<Finding[]> {
  const { schedule } = config.backup;
  const scheduled =
    schedule === 'off'
      ? warn('backup schedule', 'off: the server does not create backups automatically', `set ${NIGHTLY}`)
      : ok('backup schedule', schedule);
  return [
    scheduled,
    ...checkFolder(config),
    ...checkPassphrase(config),
    ...(await checkNewestBackup(config)),
    ...(await checkDumpProgram(config)),
  ];
}

/** Checks that this user can write to the folder of the backups, and that it is on another disk than the data. */
function checkFolder(config: Config): Finding[] {
  const folder = getBackupFolder(config);
  const isScheduled = config.backup.schedule !== 'off';
  const existingFolder = findNearestExisting(folder);
  const fix = `give the server's user write permission for ${folder}, or set PLANTROOM_BACKUP_DIR to another folder`;
  if (!canWriteFolder(existingFolder))
    return [
      isScheduled
        ? fail('backup folder', `this user cannot write to ${existingFolder}`, fix)
        : warn('backup folder', `this user cannot write to ${existingFolder}`, fix),
    ];
  const existingDataFolder = findNearestExisting(config.data.dir);
  if (statSync(existingFolder).dev === statSync(existingDataFolder).dev)
    return [
      warn(
        'backup folder',
        `${folder} is on the same disk as the data folder: a disk failure destroys both`,
        'set PLANTROOM_BACKUP_DIR to a folder on another disk, or copy the backups to another machine',
      ),
    ];
  return [ok('backup folder', folder)];
}

/** Checks that this user can read the passphrase file, that it is not empty, and that not every user can read it. */
function checkPassphrase({ backup: { passphraseFile } }: Config): Finding[] {
  if (passphraseFile === '') return [];
  const check = 'backup passphrase';
  if (!canAccess(passphraseFile, constants.R_OK))
    return [
      fail(
        check,
        `${passphraseFile} does not exist, or this user cannot read it`,
        "create it with the passphrase in the first line, readable only by the server's user",
      ),
    ];
  if (readFirstLine(passphraseFile) === '')
    return [fail(check, `the first line of ${passphraseFile} is empty`, 'write the passphrase in the first line')];
  const mode = statSync(passphraseFile).mode & 0o777;
  const isOpenToEveryone = process.platform !== 'win32' && (mode & 0o007) !== 0;
  return [
    isOpenToEveryone
      ? warn(
          check,
          `every user of this machine can read ${passphraseFile} (mode ${mode.toString(8)})`,
          `chmod 600 ${passphraseFile}`,
        )
      : ok(check, `${passphraseFile}; keep a copy of it separate from the backups`),
  ];
}

/**
 * Checks the age and the content of the newest backup of this installation. Backups that are dated in the future are
 * not trusted.
 */
async function checkNewestBackup(config: Config): Promise<Finding[]> {
  const folder = getBackupFolder(config);
  if (existsSync(folder) && !canReadFolder(folder))
    return [
      warn('newest backup', `this user cannot read the folder ${folder}`, "run this command as the server's user"),
    ];
  if (!existsSync(config.data.dir)) return []; // no data yet
  const { backups: newestFirst, isUnclear } = selectOwnBackups(listBackups(folder), findMediaOwner(config.data.dir));
  if (isUnclear)
    return [
      warn(
        'newest backup',
        `${folder} contains backups of several installations, and the data folder has no installation id yet`,
        'start the server once, or set a separate backup folder for each installation (PLANTROOM_BACKUP_DIR)',
      ),
    ];
  const [newest] = excludeFutureBackups(newestFirst, Date.now());
  if (!newest && newestFirst[0])
    return [
      warn(
        'newest backup',
        `all backups are dated in the future, for example ${newestFirst[0].file}: the clock was ahead when they were created`,
        'set the clock (NTP), then run "plantroom backup"',
      ),
    ];
  if (!newest) return [warn('newest backup', `no backup in ${folder}`, 'run "plantroom backup"')];
  return [judgeAge(newest, config.backup.schedule), await checkContent(newest, config)];
}

/** Warns if at least two scheduled backups are missing since the newest one. */
function judgeAge({ createdAt, file, bytes }: BackupFile, schedule: string): Finding {
  const now = Date.now();
  const interval = getMaxInterval(schedule, now);
  const found = `created ${new Date(createdAt).toISOString()}, ${formatMib(bytes)}: ${file}`;
  const isLate = interval !== undefined && now - createdAt > 2 * interval;
  return isLate
    ? warn(
        'newest backup',
        `${found}; at least two scheduled backups are missing since then`,
        'search the log for "backup.", then run "plantroom backup"',
      )
    : ok('newest backup', found);
}

/** Reads the backup as far as the time limit allows. */
async function checkContent(
  { file, bytes, isEncrypted }: BackupFile,
  { backup: { passphraseFile } }: Config,
): Promise<Finding> {
  const check = 'backup content';
  const canReadPassphrase = passphraseFile !== '' && canAccess(passphraseFile, constants.R_OK);
  const passphrase = canReadPassphrase ? readFirstLine(passphraseFile) : '';
  if (isEncrypted && passphrase === '')
    return ok(check, 'not checked: the backup is encrypted, and no readable passphrase file is configured');
  const signal = AbortSignal.timeout(MAX_READ_MS);
  try {
    return await verifyContent(file, bytes, { passphrase: passphrase || undefined, signal });
  } catch (error) {
    if (signal.aborted) return ok(check, `only partly read because of the time limit; ${FULL_CHECK}`);
    return fail(check, formatMessage(error), 'run "plantroom backup", then check the disk that holds the backups');
  }
}

/** Reads a small backup completely, and of a large one only its manifest. Throws if it is corrupt. */
async function verifyContent(file: string, bytes: number, options: PackOptions): Promise<Finding> {
  const isSmall = bytes <= MAX_FULLY_READ_BYTES;
  const { schema, program } = isSmall
    ? await unpackBackup(file, undefined, options) // without a target folder: only verifies
    : await readManifest(file, options.passphrase);
  return ok(
    'backup content',
    `schema ${schema}, created by version ${program.version}; ${isSmall ? 'all checksums match' : `its manifest is readable; ${FULL_CHECK}`}`,
  );
}

/**
 * Checks that pg_dump exists for PostgreSQL. Returns nothing if the database is unreachable: its own check reports
 * that.
 */
async function checkDumpProgram(config: Config): Promise<Finding[]> {
  const { schedule } = config.backup;
  if (config.database.url === '') return [];
  let version: string;
  try {
    ({ version } = await readDatabase(config, async (database) => await database.describe()));
  } catch {
    return [];
  }
  const fix = 'install the PostgreSQL client programs in the version of the PostgreSQL server';
  return [
    await assertPgDumpAvailable(version).then(
      () => ok('pg_dump', 'present'),
      (error: unknown) =>
        schedule === 'off' ? warn('pg_dump', formatMessage(error), fix) : fail('pg_dump', formatMessage(error), fix),
    ),
  ];
}

function readFirstLine(file: string): string {
  return readFileSync(file, 'utf8').split(/\r?\n/, 1)[0] ?? '';
}
