import { createReadStream, createWriteStream } from 'node:fs';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { pack, type Pack } from 'tar-stream';
import { DomainError } from '../../kernel/errors';
import { syncFolder } from '../../kernel/syncFolder';
import { type Bytes, compressing, encrypting } from './archiveBytes';
import { MANIFEST, type BackupManifest } from './manifest';
import { LONGEST_MANIFEST, manifestText } from './manifestText';

/** How a backup file is written or read. */
export interface PackOptions {
  /** Encrypts it, or opens it. */
  readonly passphrase?: string | undefined;
  /** How many bytes of the members were written or read so far. */
  readonly onProgress?: (bytes: number) => void;
  readonly signal?: AbortSignal;
}

/**
 * Writes a backup file, which must not be there yet: members are read from where `sourceOf` says; on disk when it resolves. Half a file
 * is left where it fails. Throws `backup_too_many_files`, and the errors of the file system, also where a member is not as long as the manifest says.
 */
export async function packBackup(file: string, manifest: BackupManifest, sourceOf: (path: string) => string, options: PackOptions = {}): Promise<void> {
  const { passphrase, signal } = options;
  const tar = tarOf(manifest, sourceOf, options);
  const target = createWriteStream(file, { flags: 'wx', mode: 0o600, flush: true });
  const way = { ...(signal && { signal }) };
  if (passphrase === undefined) await pipeline(tar, compressing(), target, way);
  else await pipeline(tar, compressing(), encrypting(passphrase), target, way);
  syncFolder(dirname(file));
}

async function* tarOf(manifest: BackupManifest, sourceOf: (path: string) => string, { onProgress = () => {} }: PackOptions): Bytes {
  const tar = pack();
  const failed = (error: unknown): void => tar.destroy(error as Error);
  void fill(tar, manifest, sourceOf, onProgress).then(() => tar.finalize(), failed);
  yield* tar as AsyncIterable<Uint8Array>;
}

async function fill(tar: Pack, manifest: BackupManifest, sourceOf: (path: string) => string, onProgress: (bytes: number) => void): Promise<void> {
  const mtime = new Date(manifest.createdAt);
  const text = Buffer.from(manifestText(manifest));
  if (text.length > LONGEST_MANIFEST) throw tooManyFiles(manifest.members.length);
  await added(tar, { name: MANIFEST, size: text.length, mode: 0o600, mtime }, [text]);
  let bytes = 0;
  for (const { path, bytes: size } of manifest.members) {
    const counted = async function* (): Bytes {
      for await (const chunk of createReadStream(sourceOf(path)) as Bytes) {
        onProgress((bytes += chunk.length));
        yield chunk;
      }
    };
    await added(tar, { name: path, size, mode: 0o600, mtime }, counted());
  }
}

async function added(tar: Pack, header: { name: string; size: number; mode: number; mtime: Date }, content: Bytes | Iterable<Uint8Array>): Promise<void> {
  const entry = tar.entry(header);
  await pipeline(content, entry as unknown as NodeJS.WritableStream);
}

function tooManyFiles(count: number): DomainError {
  return new DomainError('conflict', 'backup_too_many_files', `a backup can hold some ${Math.floor(LONGEST_MANIFEST / 190_000)} thousand files, and these are ${count}; copy the data folder by other means, with the server stopped`);
}
