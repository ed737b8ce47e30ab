import { createHash } from 'node:crypto';
import { mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { extract, type Header } from 'tar-stream';
import { DomainError } from '../kernel/errors';
import { syncFolder } from '../kernel/syncFolder';
import { getCode, formatMessage } from '../kernel/errorUtils';
import { type ByteStream, openArchive } from './archiveStream';
import { backupCorrupt, backupInvalid } from './backupErrors';
import { MANIFEST, type BackupManifest, type BackupMember } from './manifest';
import { MAX_MANIFEST_BYTES, parseManifest } from './manifestText';
import type { PackOptions } from './packBackup';

/** Options for unpacking a backup file. */
interface UnpackOptions extends Omit<PackOptions, 'onProgress'> {
  /** Called with the bytes of the entries so far, and of all entries. */
  readonly onProgress?: (bytes: number, totalBytes: number) => void;
  /** Whether to write the entry; an unwanted one is only verified. By default, all entries are written. */
  readonly isWanted?: (path: string) => boolean;
}

/**
 * For each entry, a tar contains, in addition to its bytes, a header, possibly a second one for a long name, and the
 * padding of the last block.
 */
const ENTRY_OVERHEAD_BYTES = 4096;
/** The maximum padding after the last entry: tar writes in records of 10 KiB. */
const ARCHIVE_OVERHEAD_BYTES = 64 * 1024;

/**
 * Reads only the manifest, from the start of the file. Throws `backup_invalid`, `backup_corrupt`,
 * `backup_version_unsupported`, `backup_passphrase_required`, `backup_passphrase_wrong`.
 */
export async function readManifest(file: string, passphrase?: string): Promise<BackupManifest> {
  return await withOpenArchive(file, { passphrase }, (_otherEntries, manifest) => Promise.resolve(manifest));
}

/**
 * Verifies that the archive has exactly the entries of the manifest, in this order, with their sizes and SHA-256. With
 * `folder`, also writes those that `options.isWanted` accepts below it, with the modes 0600 and 0700. Never overwrites
 * a file. The files are on disk (fsync) when it resolves; those written before a failure remain. Throws as readManifest
 * does, and the errors of the file system.
 */
export async function unpackBackup(
  file: string,
  folder: string | undefined,
  options: UnpackOptions = {},
): Promise<BackupManifest> {
  const isWanted = (path: string): boolean => options.isWanted?.(path) ?? true;
  return await withOpenArchive(file, options, async (entries, manifest, setCurrentEntry) => {
    const totalBytes = manifest.members.reduce((sum, { bytes }) => sum + bytes, 0);
    let unpackedBytes = 0;
    for (const member of manifest.members) {
      setCurrentEntry(member.path);
      const entry = await entries.next();
      if (entry.done === true) throw backupCorrupt(file, member.path, 'is missing');
      if (!isFileNamed(entry.value.header, member.path) || entry.value.header.size !== member.bytes)
        throw backupCorrupt(file, member.path, `is not the next entry (${describeHeader(entry.value.header)})`);
      await unpackMember(
        file,
        member,
        entry.value,
        folder !== undefined && isWanted(member.path) ? join(folder, member.path) : undefined,
        (byteCount) => {
          unpackedBytes += byteCount;
          options.onProgress?.(unpackedBytes, totalBytes);
        },
      );
    }
    setCurrentEntry('its end');
    const extraEntry = await entries.next();
    if (extraEntry.done !== true)
      throw backupCorrupt(file, describeHeader(extraEntry.value.header), `is not listed in ${MANIFEST}`);
    if (folder !== undefined) {
      for (const subfolder of listFolders(manifest.members.filter(({ path }) => isWanted(path))))
        syncFolder(join(folder, subfolder));
    }
    return manifest;
  });
}

type Entry = AsyncIterable<Uint8Array> & { readonly header: Header };
type ArchiveReader = (
  entries: AsyncIterator<Entry>,
  manifest: BackupManifest,
  setCurrentEntry: (member: string) => void,
) => Promise<BackupManifest>;

/**
 * Opens the file, reads its manifest and passes the other entries to `readEntries`, which reports the entry that it
 * reads with `setCurrentEntry`: an error names that entry. The archive must not be longer than its manifest says, so
 * that a small file cannot expand without limit.
 */
async function withOpenArchive(
  file: string,
  { passphrase, signal }: Pick<PackOptions, 'passphrase' | 'signal'>,
  readEntries: ArchiveReader,
): Promise<BackupManifest> {
  let currentEntry = MANIFEST;
  let bytesRead = 0;
  let maxBytes = MAX_MANIFEST_BYTES + ARCHIVE_OVERHEAD_BYTES; // until the manifest states the size of the other entries
  const readBounded = async function* (): ByteStream {
    for await (const chunk of openArchive(file, passphrase, signal)) {
      bytesRead += chunk.length;
      if (bytesRead > maxBytes)
        throw backupCorrupt(file, currentEntry, 'makes the archive longer than its manifest says');
      yield chunk;
    }
  };
  const tar = extract();
  // An error of the pipeline destroys the tar, so the reader of the entries receives it; here it is only awaited.
  const feeding = pipeline(readBounded, tar as unknown as NodeJS.WritableStream).then(
    () => undefined,
    (error: unknown) => ({ error }),
  );
  const entries = (tar as AsyncIterable<Entry>)[Symbol.asyncIterator]();
  try {
    const { manifest, textBytes } = await readManifestEntry(file, entries);
    maxBytes = manifest.members.reduce(
      (sum, { bytes }) => sum + bytes + ENTRY_OVERHEAD_BYTES,
      textBytes + ARCHIVE_OVERHEAD_BYTES,
    );
    return await readEntries(entries, manifest, (member) => (currentEntry = member));
  } catch (error) {
    throw isSelfExplanatory(error)
      ? error
      : backupCorrupt(file, currentEntry, `cannot be read (${formatMessage(error)})`, error);
  } finally {
    tar.destroy();
    await feeding;
  }
}

/** Reads the first entry, which must be the manifest, and returns it with the length of its text in bytes. */
async function readManifestEntry(
  file: string,
  entries: AsyncIterator<Entry>,
): Promise<{ manifest: BackupManifest; textBytes: number }> {
  const first = await entries.next();
  if (first.done === true || !isFileNamed(first.value.header, MANIFEST))
    throw backupInvalid(file, `it does not start with ${MANIFEST}`);
  if (first.value.header.size > MAX_MANIFEST_BYTES) throw backupCorrupt(file, MANIFEST, 'is too long');
  const parts: Uint8Array[] = [];
  for await (const part of first.value) parts.push(part);
  return { manifest: parseManifest(file, Buffer.concat(parts).toString()), textBytes: first.value.header.size };
}

/**
 * Reads one entry, writes it to `target` if there is one, and compares its checksum. `onBytes` is called with the
 * length of each chunk.
 */
async function unpackMember(
  file: string,
  { path, sha256 }: BackupMember,
  content: ByteStream,
  target: string | undefined,
  onBytes: (byteCount: number) => void,
): Promise<void> {
  const hash = createHash('sha256');
  const hashContent = async function* (): ByteStream {
    for await (const chunk of content) {
      hash.update(chunk);
      onBytes(chunk.length);
      yield chunk;
    }
  };
  if (target === undefined) for await (const _ of hashContent());
  else await writeNewFile(target, hashContent());
  if (hash.digest('hex') !== sha256) throw backupCorrupt(file, path, 'does not match its checksum');
}

/** Writes a file that does not exist yet, and syncs it. */
async function writeNewFile(target: string, content: ByteStream): Promise<void> {
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  await using targetFile = await open(target, 'wx', 0o600);
  for await (const chunk of content) await targetFile.writeFile(chunk);
  await targetFile.sync();
}

/** Lists every folder of the entries, and their parents; `.` for the root. */
function listFolders(members: readonly BackupMember[]): ReadonlySet<string> {
  const folders = new Set(['.']);
  for (const { path } of members) {
    // Ends at `.` at the latest, the topmost parent of every relative path.
    for (let folder = dirname(path); !folders.has(folder); folder = dirname(folder)) folders.add(folder);
  }
  return folders;
}

function isFileNamed({ name, type }: Header, path: string): boolean {
  return type === 'file' && name === path;
}

function describeHeader({ name, type, size }: Header): string {
  return `${type} ${JSON.stringify(name.slice(0, 200))}, ${size} bytes`;
}

/** Whether the error explains itself: one of ours, an error of the file system, or a requested stop. */
function isSelfExplanatory(error: unknown): boolean {
  return (
    error instanceof DomainError ||
    (error as { syscall?: string }).syscall !== undefined ||
    getCode(error) === 'ABORT_ERR'
  );
}
