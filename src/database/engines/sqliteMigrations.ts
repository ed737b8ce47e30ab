import { mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DomainError } from '../../kernel/errors';
import { freeBytes } from '../../kernel/freeBytes';
import { syncFile } from '../../kernel/syncFile';
import { syncFolder } from '../../kernel/syncFolder';
import { codeOf, isDamage, messageOf, translated } from '../translate';
import type { MigrationWork, TrialSpace } from './engine';
import { sqlite } from './sqlite';
import { knexOver } from './sqliteClient';
import { openConnection, type SqliteConnection } from './sqliteConnection';
import { beginWriting } from './writeQueue';

const MIGRATION_TRIES = 500;
/** Blocks the process; the longer wait between two tries, in beginWriting, does not. */
const SHORT_WAIT_MS = 2;
const KEPT_COPIES = 3;
/** What a copy may take beside its content. */
const SPARE_BYTES = 16 * 1024 * 1024;
const TRIAL = 'migration-trial-';
const COPY = /^before-migration-.*Z-(\d{4}_\w+)\.db$/;

/** Runs the work in one transaction on a connection of its own: all of it is on disk in the end, or nothing. */
export async function inMigration<T>(file: string, work: MigrationWork<T>): Promise<T> {
  // Foreign keys cannot be switched off inside a transaction, and a table that is rebuilt would take its referring rows along.
  const connection = openConnection(file, { busyTimeoutMs: SHORT_WAIT_MS });
  try {
    connection.run('pragma foreign_keys = off');
    await beginWriting(connection, MIGRATION_TRIES);
    const result = await work(knexOver(async (sql, values) => connection.run(sql, values), 'inside'), () => checkForeignKeys(connection));
    connection.run('commit');
    return result;
  } catch (error) {
    throw translated(sqlite, error);
  } finally {
    connection.close(); // rolls back what was not committed
  }
}

/**
 * Runs the work on a copy beside the file, which is removed again, and tells what the disk must have free for the real one. Throws
 * `no_room_for_copy`, `copy_not_made`, and what the work throws.
 */
export async function onTrialCopy(file: string, reader: SqliteConnection, work: MigrationWork<void>): Promise<TrialSpace> {
  removeTrials(dirname(file));
  const size = contentBytes(reader);
  const free = freeIn(dirname(file));
  // The copy, the log of what changes, and what it grows by: a server beside it must not run out of disk meanwhile.
  if (free < 3 * size + SPARE_BYTES) throw noRoom('to try the migrations on a copy', dirname(file), 3 * size + SPARE_BYTES, '');
  const folder = join(dirname(file), `${TRIAL}${process.pid}`);
  try {
    mkdirSync(folder, { mode: 0o700 });
    const copy = join(folder, 'plantroom.db');
    copyInto(copy, reader, '');
    const keepsLog = openConnection(copy, { busyTimeoutMs: SHORT_WAIT_MS });
    try {
      await inMigration(copy, work);
      return { neededBytes: size + statSync(`${copy}-wal`).size + Math.max(0, contentBytes(keepsLog) - size) + SPARE_BYTES, freeBytes: free };
    } finally {
      keepsLog.close();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Copies the database into `backups` beside it, where one copy of each of the newest three schemas is kept, and returns where to; whole and on disk, or not there. Throws `no_room_for_copy`, `copy_not_made`. */
export function copyAside(file: string, reader: SqliteConnection, label: string, now: number): string {
  removeTrials(dirname(file));
  const folder = join(dirname(file), 'backups');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const half of readdirSync(folder).filter((name) => name.startsWith('before-migration-') && name.endsWith('.new'))) rmSync(join(folder, half));
  const wanted = contentBytes(reader) + SPARE_BYTES;
  if (freeIn(folder) < wanted) throw noRoom('for the copy that is made before a migration', folder, wanted, WITHOUT_COPY);
  const copy = join(folder, `before-migration-${new Date(now).toISOString().replaceAll(':', '-')}-${label}.db`);
  const draft = `${copy}.new`;
  copyInto(draft, reader, WITHOUT_COPY);
  syncFile(draft);
  renameSync(draft, copy);
  syncFolder(folder);
  removeOldCopies(folder, copy);
  return copy;
}

/** Keeps the copy that was just made, whatever time others bear, and one of each schema before: a migration that fails at every start must not push those out. */
function removeOldCopies(folder: string, made: string): void {
  const labels = new Set([labelOf(basename(made))]);
  for (const name of copiesIn(folder)) {
    if (name === basename(made)) continue;
    if (labels.has(labelOf(name)) || labels.size === KEPT_COPIES) rmSync(join(folder, name));
    else labels.add(labelOf(name));
  }
}

/** Their names: of the newest schema first, and of one schema the newest first. A clock that was wrong does not put an old schema before a newer one. */
function copiesIn(folder: string): string[] {
  const names = readdirSync(folder).filter((name) => COPY.test(name));
  return names.toSorted((a, b) => (labelOf(a) === labelOf(b) ? Number(a < b) - Number(a > b) : Number(labelOf(a) < labelOf(b)) - Number(labelOf(a) > labelOf(b))));
}

function labelOf(name: string): string {
  return COPY.exec(name)?.[1] ?? '';
}

/** The copy of the newest schema among these, and of that the newest; undefined: there is none. */
export function findCopy(file: string, labels: readonly string[]): string | undefined {
  const folder = join(dirname(file), 'backups');
  try {
    const name = copiesIn(folder).find((one) => labels.includes(labelOf(one)));
    return name === undefined ? undefined : join(folder, name);
  } catch {
    return undefined; // no such folder
  }
}

/** What a copy of the database takes, in bytes. */
export function contentBytes(reader: SqliteConnection): number {
  const pragma = (name: string): number => Number(Object.values(reader.first<Record<string, number>>(`pragma ${name}`) ?? {})[0]);
  return (pragma('page_count') - pragma('freelist_count')) * pragma('page_size');
}

function copyInto(copy: string, reader: SqliteConnection, instead: string): void {
  try {
    reader.run('vacuum into ?', [copy]);
  } catch (error) {
    rmSync(copy, { force: true });
    if (isDamage(error)) throw error; // of the database itself
    throw new DomainError('unavailable', 'copy_not_made', `the database could not be copied to ${dirname(copy)} (${messageOf(error)}), and nothing was changed; see that there is room and that it can be written${instead}`, { cause: error });
  }
}

function checkForeignKeys(connection: SqliteConnection): void {
  const broken = connection.run('pragma foreign_key_check').rows as { table: string; parent: string }[];
  const [first] = broken;
  if (first) throw new Error(`it left ${broken.length} rows without what they refer to, first in ${first.table} (to ${first.parent})`);
}

/** Those of processes that were killed. */
function removeTrials(folder: string): void {
  for (const name of readdirSync(folder)) if (name.startsWith(TRIAL) && !isAlive(Number(name.slice(TRIAL.length)))) rmSync(join(folder, name), { recursive: true, force: true });
}

function isAlive(pid: number): boolean {
  if (pid === process.pid) return false; // an earlier one of the same number
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
}

const WITHOUT_COPY = '; or make a backup that lies elsewhere, then go on without this copy by "plantroom migrate --no-copy"';

function freeIn(folder: string): number {
  return freeBytes(folder) ?? Infinity;
}

function noRoom(what: string, folder: string, wanted: number, instead: string): DomainError {
  return new DomainError('conflict', 'no_room_for_copy', `there is too little room ${what}: ${mib(wanted)} are needed in ${folder}, ${mib(freeIn(folder))} are free; make room there${instead}`);
}

function mib(bytes: number): string {
  return `${Math.ceil(bytes / 1024 / 1024)} MiB`;
}
