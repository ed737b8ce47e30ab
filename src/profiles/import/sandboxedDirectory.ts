import { closeSync, constants, fstatSync, openSync, readdirSync, readSync, realpathSync, statSync } from 'node:fs';
import { basename, join, posix, sep } from 'node:path';
import type { Outcome } from '../../kernel/outcome';

const KIB = 1024;

/** The maximum size of a data file (YAML, TOML) in bytes. */
export const MAX_DATA_BYTES = 256 * KIB;
/** The maximum size of an example file in bytes. */
export const MAX_EXAMPLES_BYTES = 1024 * KIB;
/** The maximum size of a script in bytes, which is also the limit of the sandbox. */
export const MAX_SCRIPT_BYTES = 256 * KIB;

const MAX_PATH_LENGTH = 1000;
// O_NONBLOCK opens a FIFO without waiting for a writer. Windows has neither flag.
const OPEN_FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0);

/**
 * Resolves a file name that a file in `folder` contains to a path relative to the repository folder. Returns an error
 * for a name that is absolute or leads out of the repository.
 */
export function resolvePath(folder: string, name: string): Outcome<string> {
  if (name.includes('\0')) return { problem: 'contains a NUL character' };
  if (name.includes('\\')) return { problem: 'contains a backslash; use / between folders' };
  if (name.startsWith('/') || /^[a-z]:/i.test(name))
    return { problem: 'is an absolute path; use a relative path inside the repository' };
  const path = posix.join(folder, name);
  if (path === '..' || path.startsWith('../'))
    return { problem: 'points outside the repository; use a path inside it' };
  return path.length > MAX_PATH_LENGTH ? { problem: `is longer than ${MAX_PATH_LENGTH} characters` } : { value: path };
}

/**
 * Reads the files of a checkout; all file access of an import goes through it. Paths must come from `resolvePath`. It
 * never opens a file outside the folder, and it returns file system errors instead of throwing them.
 */
export class SandboxedDirectory {
  /** The last part of the folder's path. */
  readonly name: string;
  private readonly root: string;

  /** Throws the file system error if the folder does not exist. */
  constructor(folder: string) {
    this.root = realpathSync.native(folder);
    this.name = basename(this.root);
  }

  /** Reads a file as UTF-8 text. */
  read(path: string, maxBytes: number): Outcome<string> & { readonly isMissing?: true } {
    try {
      const real = this.locate(path);
      if ('problem' in real) return real;
      if (!statSync(real.value).isFile()) return { problem: 'is not a regular file' };
      const bytes = readBytes(real.value, maxBytes);
      return 'problem' in bytes ? bytes : decode(bytes.value);
    } catch (error) {
      return toReadError(error);
    }
  }

  /** Returns whether the file or folder exists inside the directory. */
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

  /** Lists the names in a folder, sorted. Links are included; their targets are checked when they are opened. */
  list(path: string, kind: 'files' | 'folders'): Outcome<string[]> {
    try {
      const real = this.locate(path);
      if ('problem' in real) return real;
      const entries = readdirSync(real.value, { withFileTypes: true }).filter(
        (entry) => entry.isSymbolicLink() || (kind === 'files' ? entry.isFile() : entry.isDirectory()),
      );
      return { value: entries.map(({ name }) => name).toSorted() };
    } catch (error) {
      return toReadError(error);
    }
  }

  /**
   * Resolves a path to its real location. Links inside the folder are followed; links that lead out of it are an error.
   */
  private locate(path: string): Outcome<string> {
    const real = realpathSync.native(join(this.root, path));
    const inside = real === this.root || real.startsWith(this.root.endsWith(sep) ? this.root : this.root + sep);
    return inside ? { value: real } : { problem: 'is a link that points outside the repository; it is not followed' };
  }
}

/** Reads a regular file of at most `maxBytes` bytes. Throws file system errors. */
function readBytes(file: string, maxBytes: number): Outcome<Buffer> {
  const descriptor = openSync(file, OPEN_FLAGS);
  try {
    // Checked again for the open file, because another process may have replaced it.
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) return { problem: 'is not a regular file' };
    if (stats.size > maxBytes)
      return { problem: `has ${formatSize(stats.size)}; the maximum is ${formatSize(maxBytes)}` };
    const buffer = Buffer.alloc(stats.size);
    let length = 0;
    while (length < buffer.length) {
      const readCount = readSync(descriptor, buffer, length, buffer.length - length, null); // may be too few
      if (readCount === 0) break; // the file became shorter
      length += readCount;
    }
    return { value: buffer.subarray(0, length) };
  } finally {
    closeSync(descriptor);
  }
}

/** Decodes UTF-8. */
function decode(bytes: Buffer): Outcome<string> {
  try {
    return { value: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    return { problem: 'is not valid UTF-8; save it as UTF-8' };
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ELOOP: 'is a circular link',
  EACCES: 'is not readable by this user (permission denied)',
  EPERM: 'is not readable by this user (permission denied)',
  ENAMETOOLONG: 'has a name that is too long for this file system',
};

/** Converts a file system error. `isMissing`: the file does not exist. */
function toReadError(error: unknown): { readonly problem: string; readonly isMissing?: true } {
  const code = String((error as NodeJS.ErrnoException).code);
  if (code === 'ENOENT' || code === 'ENOTDIR') return { problem: 'does not exist', isMissing: true };
  return { problem: REASONS[code] ?? `cannot be read (${code})` };
}

/** Formats a size in KiB, or in MiB from 1 MiB. */
export function formatSize(bytes: number): string {
  return bytes < 1024 * KIB
    ? `${Math.ceil(bytes / KIB)} KiB`
    : `${(Math.ceil((bytes / KIB / KIB) * 10) / 10).toString()} MiB`;
}
