import { existsSync, lstatSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Config } from '../../config';
import { getAvailableBytes } from '../../kernel/availableBytes';
import { fail, ok, warn, type Finding } from './check';
import { canReadFolder, canWriteFolder, findNearestExisting } from './pathFacts';

const MEBIBYTE = 1024 * 1024;
const LOW_SPACE_BYTES = 1024 * MEBIBYTE;
const MIN_SPACE_BYTES = 100 * MEBIBYTE;

/** Checks that this user can use the data folder, that other users cannot, and that its disk has free space. */
export function checkDataFolder({ data }: Config): Finding[] {
  const folder = findNearestExisting(data.dir);
  if (!canReadFolder(folder))
    return [fail('data folder', `this user cannot read ${folder}`, formatOwnerAdvice(folder))];
  if (!canWriteFolder(folder))
    return [
      fail(
        'data folder',
        `this user cannot write to ${folder}`,
        "give the server's user read and write permission, make sure that the disk is not mounted read-only, or set PLANTROOM_DATA_DIR",
      ),
    ];
  // A link without a target exists for lstat, but not for findNearestExisting.
  if (folder === dirname(data.dir) && lstatSync(data.dir, { throwIfNoEntry: false })) {
    return [
      fail(
        'data folder',
        `${data.dir} is a link to a folder that does not exist`,
        'create the folder that it points to, or set PLANTROOM_DATA_DIR',
      ),
    ];
  }
  const found =
    folder === data.dir
      ? ok('data folder', folder)
      : ok('data folder', `${data.dir} does not exist yet; the first start creates it`);
  return [found, ...checkFolderMode(data.dir), checkFreeSpace(folder)];
}

/** Warns if every user of this machine can use the folder. The last octal digit of the mode is theirs. */
function checkFolderMode(folder: string): Finding[] {
  if (process.platform === 'win32' || !existsSync(folder)) return [];
  const mode = statSync(folder).mode & 0o777;
  return (mode & 0o007) === 0
    ? []
    : [
        warn(
          'data folder rights',
          `every user of this machine can read it (mode ${mode.toString(8)})`,
          `chmod 700 ${folder}`,
        ),
      ];
}

/** Formats the advice to run the command as the owner of the folder. */
function formatOwnerAdvice(folder: string): string {
  return `run this command as the owner of the folder: sudo -u '#${statSync(folder).uid}' plantroom doctor; or set PLANTROOM_DATA_DIR`;
}

/** Checks the free space of the disk that the folder is on. */
function checkFreeSpace(folder: string): Finding {
  const free = getAvailableBytes(folder);
  if (free === undefined) return ok('disk space', 'unknown: the disk does not report its free space');
  const found = `${Math.floor(free / MEBIBYTE)} MiB free`;
  if (free < MIN_SPACE_BYTES)
    return fail('disk space', found, 'free disk space: without it the server cannot store anything');
  return free < LOW_SPACE_BYTES
    ? warn('disk space', found, 'free disk space before it runs out')
    : ok('disk space', found);
}
