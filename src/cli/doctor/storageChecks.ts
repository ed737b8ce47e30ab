import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { backupFolderOf } from '../../app';
import type { Config } from '../../config';
import { findDataFolderHolder, RESERVE_FILE, RESTORING_FOLDER, SQLITE_FILE } from '../../database';
import { freeBytes } from '../../kernel/freeBytes';
import { fail, ok, warn, type Finding } from './check';
import { mayLookInto, mib, nearestExisting, sizeOf } from './pathFacts';

const MEBIBYTE = 1024 * 1024;
const LARGE_LOG = 256 * MEBIBYTE;
const SPARE = 16 * MEBIBYTE;
const A_DAY = 86_400_000;

/** What lies in the data folder: room for what an upgrade and a backup need, the reserve, the log of SQLite, and what killed programs left. */
export function storage(config: Config): Finding[] {
  const { data, database: { url } } = config;
  if (!existsSync(data.dir)) return [];
  const isSqlite = url === '' && existsSync(join(data.dir, SQLITE_FILE));
  return [...(isSqlite ? [...room(config), ...reserve(config), writeAheadLog(data.dir)] : []), ...leftovers(config)];
}

function room(config: Config): Finding[] {
  const { dir } = config.data;
  const size = sizeOf(dir, SQLITE_FILE) + sizeOf(dir, `${SQLITE_FILE}-wal`);
  const backups = nearestExisting(backupFolderOf(config));
  return [
    enough('room for an upgrade', dir, size + SPARE, 'make room before the next upgrade, which copies the database aside; or make a backup elsewhere and run "plantroom migrate --no-copy"'),
    enough('room for a backup', backups, 2 * size + SPARE, 'make room there, or set PLANTROOM_BACKUP_DIR to a folder on another disk'),
  ];
}

function enough(check: string, folder: string, needed: number, mend: string): Finding {
  const free = freeBytes(folder);
  if (free === undefined) return ok(check, `the disk of ${folder} does not tell`);
  const found = `${mib(needed)} are needed at least, ${mib(free)} are free in ${folder}`;
  return free < needed ? warn(check, found, mend) : ok(check, found);
}

function reserve({ data, database: { reserveMib } }: Config): Finding[] {
  const wanted = reserveMib * MEBIBYTE;
  if (wanted === 0) return [warn('reserve', 'none is kept: on a full disk nothing can be cleaned up', 'set PLANTROOM_DATABASE_RESERVE_MIB=64')];
  const kept = sizeOf(data.dir, RESERVE_FILE);
  if (kept >= wanted) return [ok('reserve', `${mib(kept)} are kept for cleaning up`)];
  if (!existsSync(join(data.dir, RESERVE_FILE)) && findDataFolderHolder(data.dir) === undefined) return [ok('reserve', 'there is none yet; the server makes it')];
  return [warn('reserve', `${mib(kept)} of ${mib(wanted)} are kept: the disk was full`, 'make room on the disk; the server makes the reserve anew by itself')];
}

function writeAheadLog(dir: string): Finding {
  const size = sizeOf(dir, `${SQLITE_FILE}-wal`);
  if (size <= LARGE_LOG) return ok('write-ahead log', mib(size));
  return warn('write-ahead log', `${mib(size)}: somebody reads the database for long, so it cannot be folded in`, 'end long reads (exports, copies, other programs that have the database open); if it stays, start the server again');
}

/** What was begun and killed. What is younger than a day may be at work. */
function leftovers(config: Config): Finding[] {
  const { dir } = config.data;
  const found: Finding[] = [];
  if (existsSync(join(dir, RESTORING_FOLDER))) found.push(fail('restore', `one into ${dir} was interrupted, or is running`, 'run "plantroom restore FILE" again, which begins anew'));
  const old = [...oldIn(dir, /^migration-trial-/), ...oldIn(backupFolderOf(config), /^\.plantroom-backup-/), ...oldIn(join(dir, 'backups'), /^before-migration-.*\.new$/)];
  if (old.length > 0) found.push(warn('leftovers', `of killed commands: ${old.join(', ')}`, 'the next backup or migration removes them; or remove them by hand'));
  return found;
}

function oldIn(folder: string, name: RegExp): string[] {
  if (!existsSync(folder) || !mayLookInto(folder)) return [];
  const paths = readdirSync(folder).filter((entry) => name.test(entry)).map((entry) => join(folder, entry));
  return paths.filter((path) => (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity) < Date.now() - A_DAY);
}
