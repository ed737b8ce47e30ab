import { existsSync, lstatSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Config } from '../../config';
import { freeBytes } from '../../kernel/freeBytes';
import { fail, ok, warn, type Finding } from './check';
import { mayLookInto, mayWriteInto, nearestExisting } from './pathFacts';

const MEBIBYTE = 1024 * 1024;
const LITTLE = 1024 * MEBIBYTE;
const TOO_LITTLE = 100 * MEBIBYTE;

/** Whether the data folder can be used, by nobody else, and has room. */
export function dataFolder({ data }: Config): Finding[] {
  const folder = nearestExisting(data.dir);
  if (!mayLookInto(folder)) return [fail('data folder', `${folder} cannot be looked into by this user`, asItsUser(folder))];
  if (!mayWriteInto(folder)) return [fail('data folder', `${folder} cannot be written by this user`, 'let the user of the server read and write it, see that its disk is not mounted read-only, or set PLANTROOM_DATA_DIR')];
  if (folder === dirname(data.dir) && lstatSync(data.dir, { throwIfNoEntry: false })) {
    return [fail('data folder', `${data.dir} is a link to a place that is not there`, 'make the folder that it points to, or set PLANTROOM_DATA_DIR')];
  }
  const found = folder === data.dir ? ok('data folder', folder) : ok('data folder', `${data.dir} does not exist yet; the first start makes it`);
  return [found, ...openToOthers(data.dir), space(folder)];
}

function openToOthers(folder: string): Finding[] {
  if (process.platform === 'win32' || !existsSync(folder)) return [];
  const mode = statSync(folder).mode & 0o777;
  return (mode & 0o007) === 0 ? [] : [warn('data folder rights', `every user of this machine may look into it (mode ${mode.toString(8)})`, `chmod 700 ${folder}`)];
}

function asItsUser(folder: string): string {
  return `run this as its user: sudo -u '#${statSync(folder).uid}' plantroom doctor; or set PLANTROOM_DATA_DIR`;
}

function space(folder: string): Finding {
  const free = freeBytes(folder);
  if (free === undefined) return ok('disk space', 'the disk does not tell');
  const found = `${Math.floor(free / MEBIBYTE)} MiB free`;
  if (free < TOO_LITTLE) return fail('disk space', found, 'make room; without it nothing can be stored');
  return free < LITTLE ? warn('disk space', found, 'make room before it runs out') : ok('disk space', found);
}
