import { createReadStream, createWriteStream } from 'node:fs';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { pack, type Pack } from 'tar-stream';
import { DomainError } from '../kernel/errors';
import { syncFolder } from '../kernel/syncFolder';
import { type ByteStream, createCompressor, createEncrypter } from './archiveStream';
import { MANIFEST, type BackupManifest } from './manifest';
import { MAX_MANIFEST_BYTES, formatManifest } from './manifestText';

/** Options for writing or reading a backup file. */
export interface PackOptions {
  /** Encrypts or decrypts it. */
  readonly passphrase?: string | undefined;
  /** Called with the number of bytes of the entries that were written so far. */
  readonly onProgress?: (bytes: number) => void;
  readonly signal?: AbortSignal;
}

/**
 * Writes a new backup file, with the entries read from the paths of `getSourcePath`; resolves when it is on disk. On
 * failure, an incomplete file remains. Throws `backup_too_many_files`, and the errors of the file system, also if the
 * size of an entry differs from the manifest.
 */
export async function packBackup(
  file: string,
  manifest: BackupManifest,
  getSourcePath: (path: string) => string,
  options: PackOptions = {},
): Promise<void> {
  const { passphrase, signal } = options;
  const tar = openTar(manifest, getSourcePath, options);
  const target = createWriteStream(file, { flags: 'wx', mode: 0o600, flush: true });
  const pipelineOptions = { ...(signal && { signal }) };
  if (passphrase === undefined) await pipeline(tar, createCompressor(), target, pipelineOptions);
  else await pipeline(tar, createCompressor(), createEncrypter(passphrase), target, pipelineOptions);
  syncFolder(dirname(file));
}

/** Yields the tar of the backup. It is written while it is read. */
async function* openTar(
  manifest: BackupManifest,
  getSourcePath: (path: string) => string,
  { onProgress = () => {} }: PackOptions,
): ByteStream {
  const tar = pack();
  const onError = (error: unknown): void => tar.destroy(error as Error);
  // Not awaited: it writes only as fast as the tar is read. An error reaches the reader through the destroyed tar.
  void writeEntries(tar, manifest, getSourcePath, onProgress).then(() => tar.finalize(), onError);
  yield* tar as AsyncIterable<Uint8Array>;
}

/**
 * Writes the manifest first, then every file that it lists. `onProgress` is called with the bytes of the files so far.
 */
async function writeEntries(
  tar: Pack,
  manifest: BackupManifest,
  getSourcePath: (path: string) => string,
  onProgress: (bytes: number) => void,
): Promise<void> {
  const mtime = new Date(manifest.createdAt);
  const text = Buffer.from(formatManifest(manifest));
  if (text.length > MAX_MANIFEST_BYTES) throw tooManyFiles(manifest.members.length);
  await writeEntry(tar, { name: MANIFEST, size: text.length, mode: 0o600, mtime }, [text]);
  let writtenBytes = 0;
  for (const { path, bytes: size } of manifest.members) {
    const readAndCount = async function* (): ByteStream {
      for await (const chunk of createReadStream(getSourcePath(path)) as ByteStream) {
        writtenBytes += chunk.length;
        onProgress(writtenBytes);
        yield chunk;
      }
    };
    await writeEntry(tar, { name: path, size, mode: 0o600, mtime }, readAndCount());
  }
}

/** Writes one entry. Throws if its content is not as long as its header says. */
async function writeEntry(
  tar: Pack,
  header: { name: string; size: number; mode: number; mtime: Date },
  content: ByteStream | Iterable<Uint8Array>,
): Promise<void> {
  const entry = tar.entry(header);
  await pipeline(content, entry as unknown as NodeJS.WritableStream);
}

/** The approximate size of an entry in the manifest. */
const MANIFEST_ENTRY_BYTES = 190;

/** Creates the error `backup_too_many_files`: the manifest would not fit into memory. */
function tooManyFiles(count: number): DomainError {
  return new DomainError(
    'conflict',
    'backup_too_many_files',
    `too many files for a backup: the maximum is about ${Math.floor(MAX_MANIFEST_BYTES / (MANIFEST_ENTRY_BYTES * 1000))} thousand (got ${count}). Stop the server and copy the data folder by other means`,
  );
}
