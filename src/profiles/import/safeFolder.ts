import { closeSync, constants, fstatSync, openSync, readdirSync, readSync, realpathSync, statSync } from 'node:fs';
import { basename, join, posix, sep } from 'node:path';
import type { Outcome } from './outcome';

const KIB = 1024;

/** Bytes that a file of data may have: YAML, TOML. */
export const LARGEST_DATA = 256 * KIB;
/** Bytes that a file of examples may have. */
export const LARGEST_EXAMPLES = 1024 * KIB;
/** Bytes that a script may have: what the sandbox takes. */
export const LARGEST_SCRIPT = 256 * KIB;

const LONGEST_PATH = 1000;
// A FIFO is opened without waiting for somebody who writes; Windows knows neither.
const CAREFULLY = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0);

/** What a path of a file is joined with: where a name that stands in a file of `folder` leads, seen from the repository's folder. */
export function pathIn(folder: string, name: string): Outcome<string> {
  if (name.includes('\0')) return { problem: 'holds a NUL character' };
  if (name.includes('\\')) return { problem: 'holds a backslash; folders are parted by /' };
  if (name.startsWith('/') || /^[a-z]:/i.test(name)) return { problem: 'is an absolute path; give one inside the repository' };
  const path = posix.join(folder, name);
  if (path === '..' || path.startsWith('../')) return { problem: 'leads out of the repository; give a path inside it' };
  return path.length > LONGEST_PATH ? { problem: `is longer than ${LONGEST_PATH} characters` } : { value: path };
}

/** The only door to the files of a checkout. Paths are those that `pathIn` gave. Opens nothing that lies outside, and throws for nothing that lies inside. */
export class SafeFolder {
  /** Its own last name. */
  readonly name: string;
  private readonly root: string;

  /** Throws what the file system says where there is no such folder. */
  constructor(folder: string) {
    this.root = realpathSync.native(folder);
    this.name = basename(this.root);
  }

  /** The text of a file. */
  read(path: string, largest: number): Outcome<string> & { readonly isMissing?: true } {
    try {
      const real = this.locate(path);
      if ('problem' in real) return real;
      if (!statSync(real.value).isFile()) return { problem: 'is no regular file' };
      const bytes = readBytes(real.value, largest);
      return 'problem' in bytes ? bytes : decode(bytes.value);
    } catch (error) {
      return unreadable(error);
    }
  }

  /** Whether there is such a file or folder, inside. */
  has(path: string, kind: 'file' | 'folder'): boolean {
    try {
      const real = this.locate(path);
      if ('problem' in real) return false;
      const stats = statSync(real.value);
      return kind === 'file' ? stats.isFile() : stats.isDirectory();
    } catch {
      return false;
    }
  }

  /** The names in a folder, in order. Links are named too: where they lead is seen when they are followed. */
  list(path: string, kind: 'files' | 'folders'): Outcome<string[]> {
    try {
      const real = this.locate(path);
      if ('problem' in real) return real;
      const entries = readdirSync(real.value, { withFileTypes: true }).filter((entry) => entry.isSymbolicLink() || (kind === 'files' ? entry.isFile() : entry.isDirectory()));
      return { value: entries.map(({ name }) => name).toSorted() };
    } catch (error) {
      return unreadable(error);
    }
  }

  /** Where a path really lies. Links inside the folder are followed, those that lead out of it are not. */
  private locate(path: string): Outcome<string> {
    const real = realpathSync.native(join(this.root, path));
    const inside = real === this.root || real.startsWith(this.root.endsWith(sep) ? this.root : this.root + sep);
    return inside ? { value: real } : { problem: 'is a link that leads out of the repository, and is not followed' };
  }
}

function readBytes(file: string, largest: number): Outcome<Buffer> {
  const descriptor = openSync(file, CAREFULLY);
  try {
    // Asked again of what was opened: another process may have changed what lies there.
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) return { problem: 'is no regular file' };
    if (stats.size > largest) return { problem: `has ${inUnits(stats.size)}; at most ${inUnits(largest)} are read` };
    const buffer = Buffer.alloc(stats.size);
    let length = 0;
    for (let read = -1; read !== 0 && length < buffer.length; length += read) read = readSync(descriptor, buffer, length, buffer.length - length, null);
    return { value: buffer.subarray(0, length) };
  } finally {
    closeSync(descriptor);
  }
}

function decode(bytes: Buffer): Outcome<string> {
  try {
    return { value: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    return { problem: 'is no valid UTF-8; save it as UTF-8' };
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ELOOP: 'is a link that leads in a circle',
  EACCES: 'may not be read by this user',
  EPERM: 'may not be read by this user',
  ENAMETOOLONG: 'has a name that is too long for this file system',
};

function unreadable(error: unknown): { readonly problem: string; readonly isMissing?: true } {
  const code = String((error as NodeJS.ErrnoException).code);
  if (code === 'ENOENT' || code === 'ENOTDIR') return { problem: 'does not exist', isMissing: true };
  return { problem: REASONS[code] ?? `cannot be read (${code})` };
}

/** Bytes in KiB, from one MiB on in MiB. */
export function inUnits(bytes: number): string {
  return bytes < 1024 * KIB ? `${Math.ceil(bytes / KIB)} KiB` : `${(Math.ceil((bytes / KIB / KIB) * 10) / 10).toString()} MiB`;
}
