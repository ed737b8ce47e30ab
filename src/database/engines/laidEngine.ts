import { createHash } from 'node:crypto';
import { chmodSync, closeSync, constants, existsSync, fstatSync, lstatSync, mkdirSync, openSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { asset } from '../../kernel/assets';
import { DomainError } from '../../kernel/errors';
import { syncFolder } from '../../kernel/syncFolder';
import { codeOf, messageOf } from '../translate';

const HOME = '.runtime';
const DESCRIPTORS = '/proc/self/fd';

/** Machine code as a file. */
export interface EngineFile {
  /** Where it lies. */
  readonly file: string;
  /** What the system is to load: the very file that was looked at, whatever its name means by then. */
  readonly path: string;
}

/**
 * Where the machine code of the single binary lies as a file, for the system loads it from files only: beside the binary, where somebody
 * put it there, else below the data folder, where it is laid if it is missing, not this user's, or not byte for byte the binary's own.
 * Throws `engine_not_laid`.
 */
export function laidEngine(name: string, dataDir: string): EngineFile {
  const code = asset(name);
  const beside = findWhole(join(dirname(process.execPath), name), code, [userId(), 0]);
  if (beside) return beside;
  const isOurs = isOwn(dataDir);
  const home = join(resolve(dataDir), isOurs ? HOME : `${HOME}-${userId()}`);
  const folder = join(home, createHash('sha256').update(code).digest('hex'));
  const file = join(folder, name);
  try {
    for (const each of [home, folder]) makePrivate(each, isOurs);
    const found = findWhole(file, code, [userId()]);
    if (found) return found;
    lay(file, code);
    const laid = findWhole(file, code, [userId()]);
    if (!laid) throw new Error('what was laid there is not there any more');
    return laid;
  } catch (error) {
    throw notLaid(name, folder, error);
  }
}

/** Removes what earlier versions of the program laid beside `file`, the engine in use. A process that still runs keeps what it has loaded. */
export function removeOtherEngines(file: string): void {
  const folder = dirname(file);
  const home = dirname(folder);
  if (!basename(home).startsWith(HOME)) return;
  for (const name of readdirSync(home)) if (name !== basename(folder)) rmSync(join(home, name), { recursive: true, force: true });
  for (const name of readdirSync(folder)) if (name !== basename(file)) rmSync(join(folder, name), { force: true });
}

/** The user whose files this process may trust. */
function userId(): number {
  return process.geteuid?.() ?? 0;
}

/** Whoever works on another user's folder must not leave code there that the owner cannot read, nor run code that the owner can change. */
function isOwn(dataDir: string): boolean {
  return statSync(dataDir, { throwIfNoEntry: false })?.uid === userId();
}

/**
 * The file, if it is one of these owners', which nobody else can write, and holds just the code. It stays open, and is loaded by its descriptor:
 * the owner of the folder above could put another file in its place after it was looked at.
 */
function findWhole(file: string, code: Buffer, owners: readonly number[]): EngineFile | undefined {
  let descriptor: number;
  try {
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch {
    return undefined; // not there, or not ours to read
  }
  const found = fstatSync(descriptor);
  if (found.isFile() && owners.includes(found.uid) && (found.mode & 0o022) === 0 && found.size === code.length && readFileSync(descriptor).equals(code)) {
    const path = `${DESCRIPTORS}/${descriptor}`;
    return { file, path: existsSync(path) ? path : file };
  }
  closeSync(descriptor);
  return undefined;
}

/** In the folder of another user nothing is removed and no rights are changed: its owner could lead that elsewhere. */
function makePrivate(folder: string, mayReplace: boolean): void {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  const isOurs = found?.isDirectory() === true && found.uid === userId();
  if (isOurs && (found.mode & 0o777) === 0o700) return;
  if (found && !mayReplace) throw Object.assign(new Error(`${folder} is not this user's alone`), { code: 'EEXIST' });
  if (found && !isOurs) rmSync(folder, { recursive: true });
  mkdirSync(folder, { recursive: true, mode: 0o700 }); // recursive: another process may be quicker
  if (mayReplace) chmodSync(folder, 0o700);
}

function lay(file: string, code: Buffer): void {
  const draft = `${file}.${process.pid}.new`;
  rmSync(draft, { force: true });
  writeFileSync(draft, code, { flag: 'wx', mode: 0o500, flush: true });
  renameSync(draft, file);
  syncFolder(dirname(file));
}

function notLaid(name: string, folder: string, cause: unknown): DomainError {
  const help = `let the user of this program write there (3 MB), and remove what another user left there; or put ${name} of this version beside the program`;
  return new DomainError('unavailable', 'engine_not_laid', `the machine code of SQLite cannot be laid in ${folder} (${codeOf(cause) || messageOf(cause)}): ${help}`, { cause });
}
