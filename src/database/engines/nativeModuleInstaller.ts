import { createHash } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { readAsset } from '../../kernel/assets';
import { DomainError } from '../../kernel/errors';
import { syncFolder } from '../../kernel/syncFolder';
import { getCode, formatMessage } from '../translate';

const RUNTIME_FOLDER = '.runtime';
const ROOT_USER_ID = 0;
/** The open files of this process by descriptor (Linux). */
const DESCRIPTOR_FOLDER = '/proc/self/fd';
/** The permissions of group and others to write. */
const WRITABLE_BY_OTHERS = 0o022;

/** A native module as a file. */
export interface NativeModuleFile {
  /** Its path. */
  readonly file: string;
  /** The path to load: it refers to the checked file even if the name refers to another one by then. */
  readonly path: string;
}

/**
 * Provides the native module of the single binary as a file, because the system loads it from files only: next to the
 * binary, if an administrator put it there, else below the data folder, where it is installed if it is missing, not
 * owned by this user, or not identical. Throws `native_module_install_failed`.
 */
export function installNativeModule(name: string, dataDir: string): NativeModuleFile {
  const content = readAsset(name);
  const adjacent = findIntactFile(join(dirname(process.execPath), name), content, [getUserId(), ROOT_USER_ID]);
  if (adjacent) return adjacent;
  const isOwnFolder = isOwnedByUser(dataDir);
  const runtimeFolder = join(resolve(dataDir), isOwnFolder ? RUNTIME_FOLDER : `${RUNTIME_FOLDER}-${getUserId()}`);
  const folder = join(runtimeFolder, createHash('sha256').update(content).digest('hex'));
  const file = join(folder, name);
  try {
    for (const path of [runtimeFolder, folder]) ensurePrivateFolder(path, isOwnFolder);
    const found = findIntactFile(file, content, [getUserId()]);
    if (found) return found;
    writeModule(file, content);
    const installed = findIntactFile(file, content, [getUserId()]);
    if (!installed) throw new Error('the installed file does not exist any more');
    return installed;
  } catch (error) {
    throw moduleInstallFailed(name, folder, error);
  }
}

/**
 * Removes what earlier versions of the program installed next to `file`, the engine in use. A running process keeps
 * what it has loaded.
 */
export function removeOtherNativeModules(file: string): void {
  const folder = dirname(file);
  const runtimeFolder = dirname(folder);
  if (!basename(runtimeFolder).startsWith(RUNTIME_FOLDER)) return;
  for (const name of readdirSync(runtimeFolder))
    if (name !== basename(folder)) rmSync(join(runtimeFolder, name), { recursive: true, force: true });
  for (const name of readdirSync(folder)) if (name !== basename(file)) rmSync(join(folder, name), { force: true });
}

/** Returns the user that this process runs as; this process may trust files of that user. */
function getUserId(): number {
  return process.geteuid?.() ?? 0;
}

/**
 * Whether the folder belongs to the user of this process. In the folder of another user, this process must neither
 * leave code that the owner cannot read, nor run code that the owner can change.
 */
function isOwnedByUser(dataDir: string): boolean {
  return statSync(dataDir, { throwIfNoEntry: false })?.uid === getUserId();
}

/**
 * Returns the file if one of these owners owns it, no other user can write it, and it contains exactly the code. The
 * file stays open and is loaded by its descriptor: the owner of the parent folder could replace the file after the
 * check.
 */
function findIntactFile(file: string, content: Buffer, owners: readonly number[]): NativeModuleFile | undefined {
  let descriptor: number;
  try {
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch {
    return undefined; // it does not exist, or this user may not read it
  }
  const stats = fstatSync(descriptor);
  if (
    stats.isFile() &&
    owners.includes(stats.uid) &&
    (stats.mode & WRITABLE_BY_OTHERS) === 0 &&
    stats.size === content.length &&
    readFileSync(descriptor).equals(content)
  ) {
    const path = `${DESCRIPTOR_FOLDER}/${descriptor}`;
    return { file, path: existsSync(path) ? path : file };
  }
  closeSync(descriptor);
  return undefined;
}

/**
 * Creates the folder if it is missing, with access for this user only. `canReplace`: a wrong folder of that name may be
 * removed and permissions may be changed. This is not safe in the folder of another user, who could redirect both
 * operations with a link.
 * Throws `EEXIST`.
 */
function ensurePrivateFolder(folder: string, canReplace: boolean): void {
  const stats = lstatSync(folder, { throwIfNoEntry: false });
  const isOwnFolder = stats?.isDirectory() === true && stats.uid === getUserId();
  if (isOwnFolder && (stats.mode & 0o777) === 0o700) return;
  if (stats && !canReplace)
    throw Object.assign(new Error(`${folder} can be written by other users`), { code: 'EEXIST' });
  if (stats && !isOwnFolder) rmSync(folder, { recursive: true });
  mkdirSync(folder, { recursive: true, mode: 0o700 }); // recursive: another process may be faster
  if (canReplace) chmodSync(folder, 0o700);
}

/**
 * Writes the file under a temporary name, and renames it when it is on disk, so that no other process loads an
 * incomplete file.
 */
function writeModule(file: string, content: Buffer): void {
  const temporaryFile = `${file}.${process.pid}.new`;
  rmSync(temporaryFile, { force: true });
  writeFileSync(temporaryFile, content, { flag: 'wx', mode: 0o500, flush: true });
  renameSync(temporaryFile, file);
  syncFolder(dirname(file));
}

/** Creates the error `native_module_install_failed`, which says how to make the folder writable. */
function moduleInstallFailed(name: string, folder: string, cause: unknown): DomainError {
  const advice = `let the user of this program write there (3 MB), and remove files of other users there; or put ${name} of this version next to the program`;
  return new DomainError(
    'unavailable',
    'native_module_install_failed',
    `the native module of SQLite cannot be installed in ${folder} (${getCode(cause) || formatMessage(cause)}): ${advice}`,
    { cause },
  );
}
