import { accessSync, constants, existsSync, lstatSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Config } from '../../config';
import { fail, ok, warn, type Finding } from './check';

const MEBIBYTE = 1024 * 1024;
const LITTLE = 1024 * MEBIBYTE;
const TOO_LITTLE = 100 * MEBIBYTE;
const WRITTEN_IN = Date.UTC(2026, 0, 1);

/** Whether the data folder can be used, by nobody else, and has room. */
export function dataFolder({ data }: Config): Finding[] {
  const folder = nearestExisting(data.dir);
  try {
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return [fail('data folder', `${folder} cannot be written by this user`, 'let the user of the server read and write it, or set PLANTROOM_DATA_DIR')];
  }
  if (folder === dirname(data.dir) && lstatSync(data.dir, { throwIfNoEntry: false })) {
    return [fail('data folder', `${data.dir} is a link to a place that is not there`, 'make the folder that it points to, or set PLANTROOM_DATA_DIR')];
  }
  const found = folder === data.dir ? ok('data folder', folder) : ok('data folder', `${data.dir} does not exist yet; the first start makes it`);
  return [found, ...openToOthers(data.dir), space(folder)];
}

/** Whether the clock of the machine can be right. */
export function machineClock({ data }: Config): Finding[] {
  const now = Date.now();
  const time = new Date(now).toISOString();
  if (now < WRITTEN_IN) return [fail('clock', `it is ${time}, before this program was written`, 'set the clock of the machine, best by NTP')];
  const database = join(data.dir, 'plantroom.db');
  const written = existsSync(database) ? statSync(database).mtimeMs : 0;
  if (written > now + 60_000) return [warn('clock', `it is ${time}, but the database was last written at ${new Date(written).toISOString()}`, 'the clock went back; set it, best by NTP')];
  return [ok('clock', time)];
}

function openToOthers(folder: string): Finding[] {
  if (process.platform === 'win32' || !existsSync(folder)) return [];
  const mode = statSync(folder).mode & 0o777;
  return (mode & 0o007) === 0 ? [] : [warn('data folder rights', `every user of this machine may look into it (mode ${mode.toString(8)})`, `chmod 700 ${folder}`)];
}

function space(folder: string): Finding {
  const { bavail, bsize } = statfsSync(folder);
  const free = bavail * bsize;
  const found = `${Math.floor(free / MEBIBYTE)} MiB free`;
  if (free < TOO_LITTLE) return fail('disk space', found, 'make room; without it nothing can be stored');
  return free < LITTLE ? warn('disk space', found, 'make room before it runs out') : ok('disk space', found);
}

function nearestExisting(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestExisting(dirname(path));
}
