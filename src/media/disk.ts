import * as nodeFs from 'node:fs/promises';
import { dirname } from 'node:path';
import { DomainError } from '../kernel/errors';

/** What is asked of the file system; a test breaks some of it. */
export type FileSystem = Pick<typeof nodeFs, 'mkdir' | 'open' | 'readdir' | 'readFile' | 'rename' | 'rm' | 'rmdir' | 'stat' | 'statfs'>;

const TRIES = 10;
const FULL = new Set(['ENOSPC', 'EDQUOT']);

/** Files that are whole and on disk, or not there. */
export class Disk {
  constructor(readonly fs: FileSystem = nodeFs) {}

  /** Makes a file of what `fill` appends, and resolves when it is on disk; what could not be finished is removed. Throws `storage_full`. */
  async write(path: string, fill: (append: (bytes: Uint8Array) => Promise<void>) => Promise<void>): Promise<void> {
    const file = await storing(this.fs.open(path, 'wx', 0o600));
    try {
      await fill(async (bytes) => await storing(file.appendFile(bytes)));
      await storing(file.sync());
      await file.close();
    } catch (error) {
      await file.close();
      await this.fs.rm(path, { force: true });
      throw error;
    }
  }

  /** Moves a file; makes the folder where there is none. On disk only after `settle`. Throws `storage_full`. */
  async move(from: string, to: string): Promise<void> {
    for (let left = TRIES; ; left -= 1) {
      try {
        await this.makeFolder(dirname(to));
        await storing(this.fs.rename(from, to));
        return;
      } catch (error) {
        if (codeOf(error) !== 'ENOENT' || left === 0) throw error; // another one just removed the folder, since it was empty
      }
    }
  }

  /** Makes a folder and those above it, for this user only. Throws `storage_full`. */
  async makeFolder(path: string): Promise<void> {
    await storing(this.fs.mkdir(path, { recursive: true, mode: 0o700 }));
  }

  /**
   * What a folder and those above it up to `top` name is on disk when it resolves. Whoever puts a file into a folder does so, whether it is
   * new or not: who made it may still be about to.
   */
  async settle(path: string, top: string): Promise<void> {
    if (process.platform === 'win32') return; // there a folder cannot be opened
    for (let at = path; ; at = dirname(at)) {
      await this.syncFolder(at);
      if (at === top) return;
    }
  }

  /** Removes a folder and the one above it, unless something is in it. */
  async removeIfEmpty(path: string): Promise<void> {
    try {
      await this.fs.rmdir(path);
      await this.fs.rmdir(dirname(path));
    } catch {
      // not empty, or just not possible: an empty folder harms nobody
    }
  }

  /** The bytes that are free for this user, and all; both 0 where the drive does not tell. */
  async space(path: string): Promise<{ readonly free: number; readonly total: number }> {
    const { bavail, blocks, bsize } = await this.fs.statfs(path);
    return { free: bavail * bsize, total: blocks * bsize };
  }

  /** Removes files; one that is not there is no failure. */
  async remove(...paths: readonly string[]): Promise<void> {
    for (const path of paths) await this.fs.rm(path, { force: true });
  }

  /** Removes a folder with all that is in it. */
  async removeFolder(path: string): Promise<void> {
    await this.fs.rm(path, { recursive: true, force: true });
  }

  /** The text of a file; undefined: it is not there. */
  async text(path: string): Promise<string | undefined> {
    return await found(this.fs.readFile(path, 'utf8'));
  }

  /** Size and time of a file; undefined: it is not there. */
  async stat(path: string): Promise<{ readonly size: number; readonly mtimeMs: number } | undefined> {
    return await found(this.fs.stat(path));
  }

  /** What is in a folder; nothing for what is none. */
  async names(folder: string): Promise<readonly string[]> {
    return (await found(this.fs.readdir(folder))) ?? [];
  }

  private async syncFolder(path: string): Promise<void> {
    const folder = await this.fs.open(path, 'r');
    try {
      await storing(folder.sync());
    } finally {
      await folder.close();
    }
  }
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? '';

/** What there is; undefined for what is not, or is no folder. */
async function found<T>(look: Promise<T>): Promise<T | undefined> {
  return await look.catch((error: unknown) => {
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(error))) return undefined;
    throw error;
  });
}

async function storing<T>(work: Promise<T>): Promise<T> {
  return await work.catch((error: unknown) => {
    throw FULL.has(codeOf(error)) ? storageFull(error) : error;
  });
}

/** There is no room for another picture; `cause` goes to the log. */
export function storageFull(cause?: unknown): DomainError {
  return new DomainError('unavailable', 'storage_full', 'the disk of the data folder is full, or nearly so, and the picture was not stored; free some space on the server, then try again', { cause, retryAfterMs: 60_000 });
}
