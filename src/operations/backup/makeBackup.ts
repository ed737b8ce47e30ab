import { createHash } from 'node:crypto';
import { createReadStream, mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { connectionsWithLostSecrets } from '../../connections';
import { DUMP_FILE, type Db, snapshotDatabase, SQLITE_FILE } from '../../database';
import { findKeyIn } from '../../kernel/findKeyIn';
import { giveToOwner } from '../../kernel/giveToOwner';
import { syncFolder } from '../../kernel/syncFolder';
import { codeOf, messageOf } from '../../kernel/thrown';
import { pictureFiles } from '../../media';
import { sourceChanged, told } from './backupErrors';
import { tempFolderOf } from './backupFiles';
import { makeFolder, nameBackup, requireFreeName, requireRoom } from './backupFolder';
import type { BackupOrder, BackupSource, BackupStep, MadeBackup } from './backupOrder';
import { copySmallFiles, findFiles, readKeyFiles, type SourceFile, sourceFile } from './backupSource';
import { type SealedConnections, warningsOf } from './backupWarnings';
import { BACKUP_FORMAT, type BackupManifest, type BackupMember } from './manifest';
import { packBackup } from './packBackup';
import { unpackBackup } from './unpackBackup';

/**
 * Makes a backup, and reads it back before it gets its name. Whoever calls has to see to it that no other one is made for the installation:
 * what an earlier one left half-made in the folder is removed. Throws `backup_no_room`, `backup_folder_unusable`, `backup_exists`,
 * `backup_source_changed`, and the errors of snapshotDatabase and packBackup.
 */
export async function makeBackup(source: BackupSource, order: BackupOrder): Promise<MadeBackup> {
  makeFolder(order.folder);
  requireFreeName(order);
  const temp = tempFolderOf(order.folder, source.installationId);
  try {
    rmSync(temp, { recursive: true, force: true });
    await requireRoom(source, order.folder);
    return (await tried(source, order, temp)) ?? (await tried(source, order, temp)) ?? sourceChanged();
  } catch (error) {
    throw told(error, order.folder);
  } finally {
    rmSync(temp, { recursive: true, force: true });
  }
}

/** Undefined: a picture was deleted between the copy of the database and that of the files, so that another try finds neither. */
async function tried(source: BackupSource, order: BackupOrder, temp: string): Promise<MadeBackup | undefined> {
  rmSync(temp, { recursive: true, force: true });
  mkdirSync(temp, { mode: 0o700 });
  try {
    return await oneTry(source, order, temp);
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || messageOf(error) === 'Size mismatch') return undefined;
    throw error;
  }
}

async function oneTry(source: BackupSource, order: BackupOrder, temp: string): Promise<MadeBackup | undefined> {
  const { signal, passphrase, onProgress = () => {} } = order;
  const createdAt = source.clock.now();
  onProgress('copy', 0, 1);
  const { schema, pictures, keys, sealed } = await snapshotDatabase(source.open, temp, async (db, newest) => await lookInto(source, db, newest), signal);
  const { files, missing } = findFiles(pictures, source.dataDir);
  if (await isAnyDeleted(source, missing)) return undefined;
  const database = source.engine === 'SQLite' ? SQLITE_FILE : DUMP_FILE;
  const all = [sourceFile(database, join(temp, database)), ...copySmallFiles(source, keys, temp), ...files];
  const total = all.reduce((sum, { bytes }) => sum + bytes, 0);
  const ways = (step: BackupStep) => ({ passphrase, ...(signal && { signal }), onProgress: (done: number) => onProgress(step, done, total) });
  const members = await withChecksums(all, ways('checksums'));
  const { program, engine, installationId } = source;
  const manifest: BackupManifest = { format: BACKUP_FORMAT, createdAt: new Date(createdAt).toISOString(), program, schema, engine, installationId, members };
  const part = join(temp, 'part');
  const places = new Map(all.map(({ path, file }) => [path, file]));
  await packBackup(part, manifest, (path) => places.get(path) ?? '', ways('write'));
  await unpackBackup(part, undefined, ways('verify'));
  giveToOwner(part, order.folder);
  const file = nameBackup(part, order, createdAt, installationId);
  syncFolder(dirname(file));
  return { file, bytes: sourceFile('', file).bytes, manifest, warnings: warningsOf(missing, sealed) };
}

/** What the copy says of itself. */
async function lookInto({ givenKey, keyFile, isOlder, dataDir }: BackupSource, db: Db, schema: string) {
  const keys = readKeyFiles(keyFile); // after the copy was made: a key is on disk before the first secret that needs it
  const [kept, next] = (['secrets.key', 'secrets.key.next'] as const).map((path) => findKeyIn(keys.find((one) => one.path === path)?.content.toString('latin1') ?? ''));
  const key = givenKey ?? kept;
  const isKeyIn = key !== undefined && kept?.equals(key) === true;
  const sealed: SealedConnections = isOlder ? { all: 0, lost: [], isKeyIn } : { all: (await connectionsWithLostSecrets({ db }, undefined)).length, lost: await connectionsWithLostSecrets({ db }, key, next), isKeyIn };
  return { schema, keys, pictures: await pictureFiles(db, dataDir), sealed };
}

/** Whether a picture that is missing was deleted meanwhile; one whose file is just not there would be missing in the next try, too. */
async function isAnyDeleted({ db, dataDir }: BackupSource, missing: readonly string[]): Promise<boolean> {
  if (missing.length === 0) return false;
  const now = new Set(await pictureFiles(db, dataDir));
  return missing.some((path) => !now.has(path));
}

interface Ways {
  readonly signal?: AbortSignal;
  readonly onProgress: (done: number) => void;
}

async function withChecksums(files: readonly SourceFile[], { signal, onProgress }: Ways): Promise<readonly BackupMember[]> {
  let done = 0;
  const members: BackupMember[] = [];
  for (const { path, file, bytes } of files) {
    const hash = createHash('sha256');
    for await (const chunk of createReadStream(file, { signal }) as AsyncIterable<Buffer>) {
      hash.update(chunk);
      onProgress((done += chunk.length));
    }
    members.push({ path, bytes, sha256: hash.digest('hex') });
  }
  return members;
}
