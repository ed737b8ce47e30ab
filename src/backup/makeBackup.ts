import { createHash } from 'node:crypto';
import { createReadStream, mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { listConnectionsWithLostSecrets } from '../connections';
import { DUMP_FILE, type Db, snapshotDatabase, SQLITE_FILE } from '../database';
import { parseSecretKey } from '../kernel/parseSecretKey';
import { chownToParent } from '../kernel/chownToParent';
import { syncFolder } from '../kernel/syncFolder';
import { getCode, formatMessage } from '../kernel/errorUtils';
import { listMediaFiles } from '../media';
import { throwSourceChanged, toBackupError } from './backupErrors';
import { getTempFolder } from './backupFiles';
import { createBackupFolder, moveToFinalName, assertNameUnused, assertFreeSpace } from './backupFolder';
import type { BackupRequest, BackupSource, BackupStep, BackupResult } from './backupRequest';
import { copySmallFiles, splitByExistence, readKeyFiles, type SourceFile, describeSourceFile } from './backupSource';
import { type EncryptedConnections, listWarnings } from './backupWarnings';
import { BACKUP_FORMAT, type BackupManifest, type BackupMember } from './manifest';
import { packBackup } from './packBackup';
import { unpackBackup } from './unpackBackup';

/**
 * Makes a backup, and verifies it before it gets its name. The caller must ensure that no other backup of the
 * installation runs: the remains of an earlier one in the folder are removed. Throws `insufficient_space`,
 * `backup_folder_unusable`, `backup_exists`, `backup_source_changed`, and the errors of snapshotDatabase and
 * packBackup.
 */
export async function makeBackup(source: BackupSource, request: BackupRequest): Promise<BackupResult> {
  createBackupFolder(request.folder);
  assertNameUnused(request);
  const temp = getTempFolder(request.folder, source.installationId);
  try {
    rmSync(temp, { recursive: true, force: true });
    await assertFreeSpace(source, request.folder);
    // Two attempts: each is undefined if images were deleted while it ran.
    return (await tryBackup(source, request, temp)) ?? (await tryBackup(source, request, temp)) ?? throwSourceChanged();
  } catch (error) {
    throw toBackupError(error, request.folder);
  } finally {
    rmSync(temp, { recursive: true, force: true });
  }
}

/**
 * Makes one attempt. Returns undefined if an image was deleted or replaced between copying the database and copying the
 * files, so another attempt can succeed.
 */
async function tryBackup(
  source: BackupSource,
  request: BackupRequest,
  temp: string,
): Promise<BackupResult | undefined> {
  rmSync(temp, { recursive: true, force: true });
  mkdirSync(temp, { mode: 0o700 });
  try {
    return await createAndVerify(source, request, temp);
  } catch (error) {
    // The message of the tar library for a file that changed.
    const isSizeChanged = formatMessage(error) === 'Size mismatch';
    if (getCode(error) === 'ENOENT' || isSizeChanged) return undefined;
    throw error;
  }
}

/**
 * Copies the database, writes the archive, reads it again completely, and only then gives it its final name. Returns
 * undefined if an image was deleted in the meantime.
 */
async function createAndVerify(
  source: BackupSource,
  request: BackupRequest,
  temp: string,
): Promise<BackupResult | undefined> {
  const { signal, passphrase, onProgress = () => {} } = request;
  const createdAt = source.clock.now();
  onProgress('copy', 0, 1);
  const { schema, mediaFiles, keys, encrypted } = await snapshotDatabase(
    source.open,
    temp,
    async (db, newestMigration) => await readSnapshot(source, db, newestMigration),
    signal,
  );
  const { files, missing } = splitByExistence(mediaFiles, source.dataDir);
  if (await hasConcurrentDeletion(source, missing)) return undefined;
  const database = source.engine === 'SQLite' ? SQLITE_FILE : DUMP_FILE;
  const sourceFiles = [
    describeSourceFile(database, join(temp, database)),
    ...copySmallFiles(source, keys, temp),
    ...files,
  ];
  const total = sourceFiles.reduce((sum, { bytes }) => sum + bytes, 0);
  // Each of these steps reads or writes all files once.
  const getStepOptions = (step: BackupStep) => ({
    passphrase,
    ...(signal && { signal }),
    onProgress: (done: number) => onProgress(step, done, total),
  });
  const members = await computeChecksums(sourceFiles, getStepOptions('checksums'));
  const { program, engine, installationId } = source;
  const manifest: BackupManifest = {
    format: BACKUP_FORMAT,
    createdAt: new Date(createdAt).toISOString(),
    program,
    schema,
    engine,
    installationId,
    members,
  };
  const tempFile = join(temp, 'part');
  const sourceByPath = new Map(sourceFiles.map(({ path, file }) => [path, file]));
  await packBackup(tempFile, manifest, (path) => sourceByPath.get(path) ?? '', getStepOptions('write'));
  await unpackBackup(tempFile, undefined, getStepOptions('verify'));
  chownToParent(tempFile, request.folder);
  const file = moveToFinalName(tempFile, request, createdAt, installationId);
  syncFolder(dirname(file));
  return { file, bytes: describeSourceFile('', file).bytes, manifest, warnings: listWarnings(missing, encrypted) };
}

/**
 * Reads the media files that the copied database refers to, the keys of its secrets, and which secrets these keys can
 * decrypt.
 */
async function readSnapshot({ configuredKey, keyFile, hasOlderSchema, dataDir }: BackupSource, db: Db, schema: string) {
  // After the database was copied: a key is on disk before the first secret that needs it.
  const keys = readKeyFiles(keyFile);
  const [currentKey, nextKey] = (['secrets.key', 'secrets.key.next'] as const).map((path) =>
    parseSecretKey(keys.find((file) => file.path === path)?.content.toString('latin1') ?? ''),
  );
  const key = configuredKey ?? currentKey;
  const isKeyIncluded = key !== undefined && currentKey?.equals(key) === true;
  const encrypted: EncryptedConnections = hasOlderSchema
    ? { totalCount: 0, undecryptableNames: [], isKeyIncluded }
    : {
        // Without a key, the secrets of every connection count as lost.
        totalCount: (await listConnectionsWithLostSecrets({ db }, undefined)).length,
        undecryptableNames: await listConnectionsWithLostSecrets({ db }, key, nextKey),
        isKeyIncluded,
      };
  return { schema, keys, mediaFiles: await listMediaFiles(db, dataDir), encrypted };
}

/**
 * Whether a missing image was deleted from the database after it was copied, so that a new copy does not refer to it.
 * An image that the database still has would also be missing in the next attempt.
 */
async function hasConcurrentDeletion({ db, dataDir }: BackupSource, missing: readonly string[]): Promise<boolean> {
  if (missing.length === 0) return false;
  const existing = new Set(await listMediaFiles(db, dataDir));
  return missing.some((path) => !existing.has(path));
}

interface StepOptions {
  readonly signal?: AbortSignal;
  readonly onProgress: (done: number) => void;
}

/** Computes the SHA-256 of every file. */
async function computeChecksums(
  files: readonly SourceFile[],
  { signal, onProgress }: StepOptions,
): Promise<readonly BackupMember[]> {
  let processedBytes = 0;
  const members: BackupMember[] = [];
  for (const { path, file, bytes } of files) {
    const hash = createHash('sha256');
    for await (const chunk of createReadStream(file, { signal }) as AsyncIterable<Buffer>) {
      hash.update(chunk);
      processedBytes += chunk.length;
      onProgress(processedBytes);
    }
    members.push({ path, bytes, sha256: hash.digest('hex') });
  }
  return members;
}
