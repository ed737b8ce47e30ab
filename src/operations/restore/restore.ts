import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DUMP_FILE, markRestoring, openDatabase, refuseNewerSchema, restoreDump, rowCounts, SQLITE_FILE, unmarkRestored, type Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import type { BackupManifest } from '../backup/manifest';
import { readManifest, unpackBackup } from '../backup/unpackBackup';
import { prepareDatabase, type PreparedDatabase } from './preparation';
import { databaseNotEmpty, otherEngine } from './restoreErrors';
import { requireRoom } from './room';
import { StagingFolder } from './stagingFolder';

/** What is restored, and where to. */
export interface RestoreOptions {
  readonly file: string;
  readonly dataDir: string;
  /** Empty: SQLite. */
  readonly databaseUrl: string;
  readonly passphrase: string | undefined;
  readonly revokesKeys: boolean;
  readonly clock: Clock;
  readonly log: Logger;
  /** How far it is, for people; the bytes are those of the members that were unpacked. */
  readonly onProgress: (step: string, bytes: number, ofBytes: number) => void;
  /** Stops it: nothing is restored then. */
  readonly signal: AbortSignal;
}

/** What a restore did. */
export interface Restored extends PreparedDatabase {
  readonly manifest: BackupManifest;
  /** Where the configuration of the backup lies; undefined: it has none. */
  readonly configuration: string | undefined;
}

/**
 * Restores a backup into an empty data folder (and an empty database of PostgreSQL). Nothing gets its name before all is verified and prepared;
 * what fails, or is killed, leaves no server that could start. Throws what unpackBackup and StagingFolder.take throw, `schema_too_new`,
 * `backup_of_other_engine`, `database_not_empty`, `restore_no_space`, `pg_restore_missing`, `pg_restore_failed`.
 */
export async function restoreBackup(options: RestoreOptions): Promise<Restored> {
  const manifest = await checkedManifest(options);
  const staging = await StagingFolder.take(options.dataDir, options.file, options.clock);
  // Once a database of PostgreSQL may hold what a server must not send, no server may start until a restore came to its end.
  let staysMarked = staging.hadLeftover && options.databaseUrl !== '';
  try {
    await unpack(manifest, staging.content, options);
    const prepared = await withDatabase(staging.content, options, async (database) => {
      if (options.databaseUrl === '') return await prepare(database, manifest, options);
      await fill(database, join(staging.content, DUMP_FILE), options, () => (staysMarked = true));
      const inPostgres = await prepare(database, manifest, options);
      await unmarkRestored(database.db);
      return inPostgres;
    });
    const configuration = setAside(staging.content) ? join(options.dataDir, 'plantroom.restored.yaml') : undefined;
    options.signal.throwIfAborted();
    staging.place();
    return { ...prepared, manifest, configuration };
  } catch (error) {
    if (!staysMarked) staging.remove();
    throw error;
  } finally {
    staging.close();
  }
}

/** Does all of it in a temporary folder and keeps nothing: whether a backup can be restored, and what it would do. Of PostgreSQL's it only verifies the file; then the rest is undefined. */
export async function rehearseRestore(options: RestoreOptions): Promise<{ readonly manifest: BackupManifest; readonly prepared: PreparedDatabase | undefined }> {
  const manifest = await checkedManifest(options);
  if (manifest.engine === 'PostgreSQL') return { manifest: await unpackBackup(options.file, undefined, { passphrase: options.passphrase, signal: options.signal }), prepared: undefined };
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-restore-'));
  try {
    await unpack(manifest, folder, options);
    return { manifest, prepared: await withDatabase(folder, options, async (database) => await prepare(database, manifest, options)) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function checkedManifest({ file, passphrase, databaseUrl }: RestoreOptions): Promise<BackupManifest> {
  const manifest = await readManifest(file, passphrase);
  refuseNewerSchema(manifest.schema);
  if ((manifest.engine === 'PostgreSQL') !== (databaseUrl !== '')) throw otherEngine(manifest.engine, databaseUrl !== '');
  return manifest;
}

async function unpack({ members }: BackupManifest, folder: string, { file, passphrase, onProgress, signal }: RestoreOptions): Promise<void> {
  const total = members.reduce((sum, { bytes }) => sum + bytes, 0);
  requireRoom(folder, total + (members.find(({ path }) => path === SQLITE_FILE)?.bytes ?? 0));
  await unpackBackup(file, folder, { passphrase, signal, onProgress: (bytes) => onProgress('unpacking', bytes, total) });
}

async function withDatabase<T>(dataDir: string, { databaseUrl, clock, log }: RestoreOptions, work: (database: Database) => Promise<T>): Promise<T> {
  const database = await openDatabase({ url: databaseUrl, dataDir, clock, log, isRestoring: true });
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

async function prepare(database: Database, manifest: BackupManifest, { revokesKeys, clock, log, onProgress }: RestoreOptions): Promise<PreparedDatabase> {
  return await prepareDatabase({ database, manifest, revokesKeys, clock, log, onStep: (step) => onProgress(step, 0, 0) });
}

/**
 * Restores a dump into an empty database of PostgreSQL, which is marked before. `onMarked`: it stays marked until its content is prepared, for there may be
 * something in it now, or something may yet come: the pg_restore of a restore that was killed goes on.
 */
async function fill(database: Database, dump: string, { databaseUrl, onProgress }: RestoreOptions, onMarked: () => void): Promise<void> {
  await database.own(() => {}); // no server starts on it meanwhile
  const { size } = await rowCounts(database.db);
  if (size > 0) throw databaseNotEmpty(size);
  const isFirst = await markRestoring(database.db);
  onProgress('restoring the dump', 0, 0);
  try {
    await restoreDump(dump, databaseUrl);
    onMarked();
  } catch (error) {
    const isOver = isFirst && !(error instanceof DomainError && error.isInDoubt);
    if (isOver && (await rowCounts(database.db).catch(() => ({ size: 1 }))).size === 0) await unmarkRestored(database.db);
    else onMarked(); // it failed after its commit, or nobody knows
    throw error;
  }
}

/** The configuration of another machine, or of another day, is for a person to look at: it must not take effect by lying where it is found. */
function setAside(folder: string): boolean {
  const file = join(folder, 'plantroom.yaml');
  if (!existsSync(file)) return false;
  renameSync(file, join(folder, 'plantroom.restored.yaml'));
  return true;
}
