import { chmodSync, closeSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, openSync, readSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { lockDataFolder, openDatabase, refuseHalfRestored, SQLITE_FILE } from '../../database';
import { ExchangeFolder } from './exchangeFolder';
import { prepareDatabase, type PreparedDatabase } from './preparation';
import { copyNotOne, nothingToGoBack, otherEngine } from './restoreErrors';
import type { RestoreOptions } from './restore';
import { requireRoom } from './room';

/** What going back to a copy of the database did. */
export interface WentBack extends PreparedDatabase {
  /** When the copy was made; ISO 8601, UTC. */
  readonly createdAt: string;
  /** Where the database lies now that was there before. */
  readonly movedTo: string;
}

const HEAD = 'SQLite format 3\0';
/** What a migration calls its copy. */
const COPY_NAME = /^before-migration-(\d{4}-\d\d-\d\dT\d\d)-(\d\d)-(\d\d\.\d{3}Z)-/;

/** Whether the file is a database of SQLite, as the copy that is made before a migration, and not a backup. False also if it cannot be read. */
export function isDatabaseCopy(file: string): boolean {
  try {
    const handle = openSync(file, 'r');
    try {
      const head = Buffer.alloc(HEAD.length);
      return readSync(handle, head) === HEAD.length && head.toString('latin1') === HEAD;
    } finally {
      closeSync(handle);
    }
  } catch {
    return false; // whoever reads it next says why
  }
}

/**
 * Puts a copy of the database in the place of the one in its data folder, which is moved aside: the way back over a migration. Pictures, keys and
 * certificates stay. What the copy holds open is ended as in a restore, for it may have been sent since. What fails, or is killed, leaves the database as it
 * was, or lets no server start until it is done again. Throws `backup_of_other_engine`, `copy_not_one`, `nothing_to_go_back`, `restore_unfinished`,
 * `data_folder_in_use`, `restore_no_space`, `schema_too_new`, `backup_damaged`.
 */
export async function goBack(options: RestoreOptions): Promise<WentBack> {
  const { file, dataDir, clock, signal } = options;
  refuseWrong(options);
  if (!existsSync(join(dataDir, SQLITE_FILE)) && !ExchangeFolder.isLeftIn(dataDir)) throw nothingToGoBack(dataDir);
  const lock = await lockDataFolder(dataDir, clock);
  try {
    ExchangeFolder.finish(dataDir);
    refuseHalfRestored(dataDir);
    const exchange = ExchangeFolder.make(dataDir, clock.now());
    try {
      const prepared = await prepareCopy(file, exchange.content, options);
      signal.throwIfAborted();
      return { ...prepared, createdAt: madeAt(file), movedTo: exchange.place() };
    } finally {
      exchange.remove();
    }
  } finally {
    lock.release();
  }
}

/** Does it in a temporary folder and keeps nothing. */
export async function rehearseGoingBack(options: RestoreOptions): Promise<Omit<WentBack, 'movedTo'>> {
  refuseWrong(options);
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-restore-'));
  try {
    return { ...(await prepareCopy(options.file, folder, options)), createdAt: madeAt(options.file) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function refuseWrong({ file, dataDir, databaseUrl }: RestoreOptions): void {
  if (databaseUrl !== '') throw otherEngine('SQLite', true);
  if (resolve(file) === resolve(dataDir, SQLITE_FILE)) throw copyNotOne(file, 'it is the database itself');
}

async function prepareCopy(file: string, folder: string, { revokesKeys, clock, log, onProgress }: RestoreOptions): Promise<PreparedDatabase> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  requireRoom(folder, 2 * statSync(file).size);
  onProgress('copying', 0, 0);
  for (const end of ['', '-wal']) if (existsSync(file + end)) copyPrivately(file + end, join(folder, SQLITE_FILE + end));
  const database = await openDatabase({ url: '', dataDir: folder, clock, log });
  try {
    const { schema } = await database.describe();
    if (schema === '') throw copyNotOne(file, 'it has no schema of Plantroom');
    return await prepareDatabase({ database, manifest: { schema, createdAt: madeAt(file) }, revokesKeys, clock, log, onStep: (step) => onProgress(step, 0, 0) });
  } finally {
    await database.close();
  }
}

function copyPrivately(from: string, to: string): void {
  copyFileSync(from, to);
  chmodSync(to, 0o600);
}

/** By its name, for whoever copied it elsewhere may have made it young; by its own time where it bears no such name. */
function madeAt(file: string): string {
  const named = COPY_NAME.exec(basename(file));
  return named ? `${named[1]}:${named[2]}:${named[3]}` : statSync(file).mtime.toISOString();
}
