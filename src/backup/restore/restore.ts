import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  DUMP_FILE,
  addRestoreMark,
  openDatabase,
  assertSchemaKnown,
  restoreDump,
  countRows,
  SQLITE_FILE,
  removeRestoreMark,
  type Database,
} from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import type { BackupManifest } from '../manifest';
import { readManifest, unpackBackup } from '../unpackBackup';
import { prepareDatabase, type PreparedDatabase } from './preparation';
import { databaseNotEmpty, engineMismatch } from './restoreErrors';
import { assertFreeSpace } from './freeSpace';
import { StagingFolder } from './stagingFolder';

/** What to restore, and where to. */
export interface RestoreOptions {
  readonly file: string;
  readonly dataDir: string;
  /** Empty: SQLite. */
  readonly databaseUrl: string;
  readonly passphrase: string | undefined;
  readonly revokesKeys: boolean;
  readonly clock: Clock;
  readonly log: Logger;
  /** Reports the progress, for people; the bytes are those of the unpacked entries. */
  readonly onProgress: (step: string, bytes: number, totalBytes: number) => void;
  /** Cancels the restore: nothing is restored then. */
  readonly signal: AbortSignal;
}

/** The result of a restore. */
export interface RestoreResult extends PreparedDatabase {
  readonly manifest: BackupManifest;
  /** The path of the restored configuration; undefined: the backup has none. */
  readonly configuration: string | undefined;
}

/**
 * Restores a backup into an empty data folder (and an empty PostgreSQL database). Nothing gets its final name before
 * everything is verified and prepared; a failed or killed restore leaves no server that could start. Throws the errors
 * of unpackBackup and StagingFolder.claim, `schema_version_unsupported`, `backup_engine_mismatch`,
 * `database_not_empty`, `insufficient_space`, `pg_restore_missing`, `pg_restore_failed`.
 */
export async function restoreBackup(options: RestoreOptions): Promise<RestoreResult> {
  const manifest = await readRestorableManifest(options);
  const staging = await StagingFolder.claim(options.dataDir, options.file, options.clock);
  // Once a PostgreSQL database may contain what a server must not send, no server may start until a restore has
  // finished. While the staging folder exists, none starts.
  let mustPreventStart = staging.hasLeftover && options.databaseUrl !== '';
  try {
    await unpack(manifest, staging.content, options);
    const result = await withDatabase(staging.content, options, async (database) => {
      if (options.databaseUrl === '') return await prepare(database, manifest, options);
      await restoreIntoPostgres(database, join(staging.content, DUMP_FILE), options, () => (mustPreventStart = true));
      const prepared = await prepare(database, manifest, options);
      await removeRestoreMark(database.db);
      return prepared;
    });
    const configuration = renameConfiguration(staging.content)
      ? join(options.dataDir, 'plantroom.restored.yaml')
      : undefined;
    options.signal.throwIfAborted();
    staging.moveIntoPlace();
    return { ...result, manifest, configuration };
  } catch (error) {
    if (!mustPreventStart) staging.remove();
    throw error;
  } finally {
    staging.releaseFolder();
  }
}

/**
 * Runs a restore in a temporary folder and discards the result, to show whether it is possible and what it would do. A
 * PostgreSQL backup file is only verified; then the other fields are undefined.
 */
export async function dryRunRestore(
  options: RestoreOptions,
): Promise<{ readonly manifest: BackupManifest; readonly prepared: PreparedDatabase | undefined }> {
  const manifest = await readRestorableManifest(options);
  if (manifest.engine === 'PostgreSQL') {
    return {
      manifest: await unpackBackup(options.file, undefined, { passphrase: options.passphrase, signal: options.signal }),
      prepared: undefined,
    };
  }
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-restore-'));
  try {
    await unpack(manifest, folder, options);
    return {
      manifest,
      prepared: await withDatabase(folder, options, async (database) => await prepare(database, manifest, options)),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Reads the manifest of the backup. Throws `schema_version_unsupported` for a newer schema, and
 * `backup_engine_mismatch`.
 */
async function readRestorableManifest({ file, passphrase, databaseUrl }: RestoreOptions): Promise<BackupManifest> {
  const manifest = await readManifest(file, passphrase);
  assertSchemaKnown(manifest.schema);
  if ((manifest.engine === 'PostgreSQL') !== (databaseUrl !== ''))
    throw engineMismatch(manifest.engine, databaseUrl !== '');
  return manifest;
}

/**
 * Unpacks the backup into the folder, after checking that the entries and a second copy of the database fit. Throws
 * `insufficient_space`, and the errors of unpackBackup.
 */
async function unpack(
  { members }: BackupManifest,
  folder: string,
  { file, passphrase, onProgress, signal }: RestoreOptions,
): Promise<void> {
  const total = members.reduce((sum, { bytes }) => sum + bytes, 0);
  assertFreeSpace(folder, total + (members.find(({ path }) => path === SQLITE_FILE)?.bytes ?? 0));
  await unpackBackup(file, folder, {
    passphrase,
    signal,
    onProgress: (bytes) => onProgress('unpacking', bytes, total),
  });
}

/** Opens the database that is being restored, runs the work, and closes it. */
async function withDatabase<T>(
  dataDir: string,
  { databaseUrl, clock, log }: RestoreOptions,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  const database = await openDatabase({ url: databaseUrl, dataDir, clock, log, isRestoring: true });
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

/** Calls prepareDatabase with the options of the restore. */
async function prepare(
  database: Database,
  manifest: BackupManifest,
  { revokesKeys, clock, log, onProgress }: RestoreOptions,
): Promise<PreparedDatabase> {
  return await prepareDatabase({
    database,
    manifest,
    revokesKeys,
    clock,
    log,
    onStep: (step) => onProgress(step, 0, 0),
  });
}

/**
 * Restores a dump into an empty PostgreSQL database. Before that it marks the database, so that no server uses it.
 * `onMarked` is called if it must stay marked until its content is prepared: it may already have content, or may still
 * get some, because the pg_restore of a killed restore continues.
 */
async function restoreIntoPostgres(
  database: Database,
  dump: string,
  { databaseUrl, onProgress }: RestoreOptions,
  onMarked: () => void,
): Promise<void> {
  await database.acquireOwnership(() => {}); // no server can start on it in the meantime
  const { size: tableCount } = await countRows(database.db);
  if (tableCount > 0) throw databaseNotEmpty(tableCount);
  const isNewlyMarked = await addRestoreMark(database.db); // otherwise an earlier restore may still commit
  onProgress('restoring the dump', 0, 0);
  try {
    await restoreDump(dump, databaseUrl);
    onMarked();
  } catch (error) {
    const isCleanFailure = isNewlyMarked && !(error instanceof DomainError && error.isInDoubt);
    const isEmpty = async (): Promise<boolean> => (await countRows(database.db)).size === 0;
    if (isCleanFailure && (await isEmpty().catch(() => false))) await removeRestoreMark(database.db);
    else onMarked(); // it failed after its commit, or the outcome is unknown
    throw error;
  }
}

/**
 * Renames the restored configuration, so that it does not take effect automatically: an administrator must check the
 * configuration of another machine or time first. Returns false if there is none.
 */
function renameConfiguration(folder: string): boolean {
  const file = join(folder, 'plantroom.yaml');
  if (!existsSync(file)) return false;
  renameSync(file, join(folder, 'plantroom.restored.yaml'));
  return true;
}
