import { createHash } from 'node:crypto';
import { mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { extract, type Header } from 'tar-stream';
import { DomainError } from '../../kernel/errors';
import { syncFolder } from '../../kernel/syncFolder';
import { codeOf, messageOf } from '../../kernel/thrown';
import { type Bytes, openArchive } from './archiveBytes';
import { damagedBackup, notBackup } from './backupErrors';
import { MANIFEST, type BackupManifest, type BackupMember } from './manifest';
import { LONGEST_MANIFEST, readManifestText } from './manifestText';
import type { PackOptions } from './packBackup';

/** How a backup file is unpacked. */
export interface UnpackOptions extends PackOptions {
  /** Which members are laid; the others are only compared. Undefined: all. */
  readonly isWanted?: (path: string) => boolean;
}

/** Beside the bytes of a member, a tar has its header, perhaps one of a long name, and what fills the last block. */
const BESIDE_MEMBER = 4096;
/** What a tar may have behind its last member: tar writes in records of 10 KiB. */
const BESIDE_ALL = 64 * 1024;

/** Only the manifest; reads no more than the head of the file. Throws `backup_not_one`, `backup_damaged`, `backup_too_new`, `backup_passphrase_needed`, `backup_passphrase_wrong`. */
export async function readManifest(file: string, passphrase?: string): Promise<BackupManifest> {
  return await reading(file, { passphrase }, (_entries, manifest) => Promise.resolve(manifest));
}

/**
 * Lays every member below `folder` (modes 0600 and 0700, on disk when it resolves; never over a file that is there) and compares size and
 * SHA-256; without `folder` it only compares. What was laid before it failed stays. Throws as readManifest does, and the errors of the file system.
 */
export async function unpackBackup(file: string, folder: string | undefined, options: UnpackOptions = {}): Promise<BackupManifest> {
  const isLaid = (path: string): boolean => options.isWanted?.(path) ?? true;
  return await reading(file, options, async (entries, manifest, at) => {
    let bytes = 0;
    for (const member of manifest.members) {
      at(member.path);
      const entry = await entries.next();
      if (entry.done === true) throw damagedBackup(file, member.path, 'is missing');
      if (!isFile(entry.value.header, member.path) || entry.value.header.size !== member.bytes) throw damagedBackup(file, member.path, `is not what follows (${shown(entry.value.header)})`);
      await takeMember(file, member, entry.value, folder !== undefined && isLaid(member.path) ? join(folder, member.path) : undefined, (count) => options.onProgress?.((bytes += count)));
    }
    at('its end');
    const more = await entries.next();
    if (more.done !== true) throw damagedBackup(file, shown(more.value.header), `is in it, and not in ${MANIFEST}`);
    if (folder !== undefined) for (const made of foldersOf(manifest.members.filter(({ path }) => isLaid(path)))) syncFolder(join(folder, made));
    return manifest;
  });
}

type Entry = AsyncIterable<Uint8Array> & { readonly header: Header };
type Work = (entries: AsyncIterator<Entry>, manifest: BackupManifest, at: (member: string) => void) => Promise<BackupManifest>;

/** Opens the file, reads its manifest and hands on what follows; what goes wrong in the file is said of the member where it does. */
async function reading(file: string, { passphrase, signal }: PackOptions, work: Work): Promise<BackupManifest> {
  let place = MANIFEST;
  let [taken, most] = [0, LONGEST_MANIFEST + BESIDE_ALL];
  const bounded = async function* (): Bytes {
    for await (const chunk of openArchive(file, passphrase, signal)) {
      taken += chunk.length;
      if (taken > most) throw damagedBackup(file, place, 'is longer than it says');
      yield chunk;
    }
  };
  const tar = extract();
  const fed = pipeline(bounded, tar as unknown as NodeJS.WritableStream).then(() => undefined, (error: unknown) => ({ error }));
  const entries = (tar as AsyncIterable<Entry>)[Symbol.asyncIterator]();
  try {
    const { manifest, textBytes } = await manifestOf(file, entries);
    most = manifest.members.reduce((sum, { bytes }) => sum + bytes + BESIDE_MEMBER, textBytes + BESIDE_ALL);
    return await work(entries, manifest, (member) => (place = member));
  } catch (error) {
    throw isOurs(error) ? error : damagedBackup(file, place, `cannot be read (${messageOf(error)})`, error);
  } finally {
    tar.destroy();
    await fed;
  }
}

async function manifestOf(file: string, entries: AsyncIterator<Entry>): Promise<{ manifest: BackupManifest; textBytes: number }> {
  const first = await entries.next();
  if (first.done === true || !isFile(first.value.header, MANIFEST)) throw notBackup(file, `it does not begin with ${MANIFEST}`);
  if (first.value.header.size > LONGEST_MANIFEST) throw damagedBackup(file, MANIFEST, 'is too long');
  const parts: Uint8Array[] = [];
  for await (const part of first.value) parts.push(part);
  return { manifest: readManifestText(file, Buffer.concat(parts).toString()), textBytes: first.value.header.size };
}

async function takeMember(file: string, { path, sha256 }: BackupMember, content: Bytes, target: string | undefined, onBytes: (count: number) => void): Promise<void> {
  const hash = createHash('sha256');
  const taken = async function* (): Bytes {
    for await (const chunk of content) {
      hash.update(chunk);
      onBytes(chunk.length);
      yield chunk;
    }
  };
  if (target === undefined) for await (const _ of taken());
  else await lay(target, taken());
  if (hash.digest('hex') !== sha256) throw damagedBackup(file, path, 'is not what it was when the backup was made');
}

async function lay(target: string, content: Bytes): Promise<void> {
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  await using handle = await open(target, 'wx', 0o600);
  for await (const chunk of content) await handle.writeFile(chunk);
  await handle.sync();
}

/** Every folder that members lie in, and those above them; `.` for the one that takes all. */
function foldersOf(members: readonly BackupMember[]): ReadonlySet<string> {
  const folders = new Set(['.']);
  for (const { path } of members) {
    for (let folder = dirname(path); !folders.has(folder); folder = dirname(folder)) folders.add(folder);
  }
  return folders;
}

function isFile({ name, type }: Header, path: string): boolean {
  return type === 'file' && name === path;
}

function shown({ name, type, size }: Header): string {
  return `${type} ${JSON.stringify(name.slice(0, 200))}, ${size} bytes`;
}

/** What says itself what is wrong: ours, an error of the file system, a stop that was asked for. */
function isOurs(error: unknown): boolean {
  return error instanceof DomainError || (error as { syscall?: string }).syscall !== undefined || codeOf(error) === 'ABORT_ERR';
}
