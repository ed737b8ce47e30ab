import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { getBackupFolder } from '../../server';
import type { Config } from '../../config';
import { findDataFolderHolder, RESERVE_FILE, RESTORING_FOLDER, SQLITE_FILE } from '../../database';
import { formatMib, getAvailableBytes } from '../../kernel/availableBytes';
import { DAY_MS } from '../../kernel/timeUnits';
import { fail, ok, warn, type Finding } from './check';
import { canReadFolder, findNearestExisting, getSize } from './pathFacts';

const MEBIBYTE = 1024 * 1024;
const MAX_WRITE_AHEAD_LOG_BYTES = 256 * MEBIBYTE;
const SPARE_BYTES = 16 * MEBIBYTE;

/**
 * Checks the disk space for an upgrade and a backup, the disk reserve, the SQLite write-ahead log, and files that
 * killed commands left behind.
 */
export function checkStorage(config: Config): Finding[] {
  const {
    data,
    database: { url },
  } = config;
  if (!existsSync(data.dir)) return [];
  const isSqlite = url === '' && existsSync(join(data.dir, SQLITE_FILE));
  return [
    ...(isSqlite ? [...checkSpaceForCopies(config), ...checkReserve(config), checkWriteAheadLog(data.dir)] : []),
    ...checkLeftovers(config),
  ];
}

/** Checks the space for the copy that a migration makes, and for a backup, which needs a copy and the file itself. */
function checkSpaceForCopies(config: Config): Finding[] {
  const { dir } = config.data;
  const size = getSize(dir, SQLITE_FILE) + getSize(dir, `${SQLITE_FILE}-wal`);
  const backups = findNearestExisting(getBackupFolder(config));
  return [
    checkAvailableSpace(
      'space for an upgrade',
      dir,
      size + SPARE_BYTES,
      'free disk space before the next upgrade, which copies the database; or create a backup on another disk and run "plantroom migrate --no-backup"',
    ),
    checkAvailableSpace(
      'space for a backup',
      backups,
      2 * size + SPARE_BYTES,
      'free disk space there, or set PLANTROOM_BACKUP_DIR to a folder on another disk',
    ),
  ];
}

/** Warns if less than `neededBytes` are free on the disk of a folder. */
function checkAvailableSpace(check: string, folder: string, neededBytes: number, fix: string): Finding {
  const free = getAvailableBytes(folder);
  if (free === undefined) return ok(check, `unknown: the disk of ${folder} does not report its free space`);
  const found = `at least ${formatMib(neededBytes)} needed, ${formatMib(free)} free in ${folder}`;
  return free < neededBytes ? warn(check, found, fix) : ok(check, found);
}

/**
 * Checks the disk reserve: a file that only takes up space. The server shrinks it when the disk is full, so that data
 * can still be deleted.
 */
function checkReserve({ data, database: { diskReserveMib: reserveMib } }: Config): Finding[] {
  const targetBytes = reserveMib * MEBIBYTE;
  if (targetBytes === 0)
    return [
      warn(
        'reserve',
        'disabled: nothing can be deleted when the disk is full',
        'set PLANTROOM_DATABASE_DISK_RESERVE_MIB=64',
      ),
    ];
  const bytes = getSize(data.dir, RESERVE_FILE);
  if (bytes >= targetBytes)
    return [ok('reserve', `${formatMib(bytes)} reserved (emergency space when the disk is full)`)];
  if (!existsSync(join(data.dir, RESERVE_FILE)) && findDataFolderHolder(data.dir) === undefined)
    return [ok('reserve', 'not created yet; the server creates it')];
  return [
    warn(
      'reserve',
      `${formatMib(bytes)} of ${formatMib(targetBytes)} reserved: the disk was full`,
      'free disk space; the server then restores the reserve automatically',
    ),
  ];
}

/** Warns if the write-ahead log is large: SQLite cannot shorten it while a read of the database is open. */
function checkWriteAheadLog(dir: string): Finding {
  const size = getSize(dir, `${SQLITE_FILE}-wal`);
  if (size <= MAX_WRITE_AHEAD_LOG_BYTES) return ok('write-ahead log', formatMib(size));
  return warn(
    'write-ahead log',
    `${formatMib(size)}: a long read of the database prevents a checkpoint`,
    'stop long reads (exports, copies, other programs that have the database open); if it stays large, restart the server',
  );
}

/** Finds an interrupted restore of any age, and files of killed commands. Files younger than a day may be in use. */
function checkLeftovers(config: Config): Finding[] {
  const { dir } = config.data;
  const found: Finding[] = [];
  if (existsSync(join(dir, RESTORING_FOLDER)))
    found.push(
      fail(
        'restore',
        `a restore into ${dir} was interrupted, or is still running`,
        'run "plantroom restore FILE" again; it starts from the beginning',
      ),
    );
  const oldFiles = [
    ...listOldFiles(dir, /^migration-trial-/),
    ...listOldFiles(getBackupFolder(config), /^\.plantroom-backup-/),
    ...listOldFiles(join(dir, 'backups'), /^before-migration-.*\.new$/),
  ];
  if (oldFiles.length > 0)
    found.push(
      warn(
        'leftovers',
        `files of killed commands: ${oldFiles.join(', ')}`,
        'the next backup or migration removes them; you can also delete them yourself',
      ),
    );
  return found;
}

/** Lists the paths in a folder whose names match and that are more than a day old. */
function listOldFiles(folder: string, name: RegExp): string[] {
  if (!existsSync(folder) || !canReadFolder(folder)) return [];
  const paths = readdirSync(folder)
    .filter((entry) => name.test(entry))
    .map((entry) => join(folder, entry));
  return paths.filter((path) => (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity) < Date.now() - DAY_MS);
}
