import * as nodeFs from 'node:fs/promises';
import { dirname } from 'node:path';
import { DomainError } from '../kernel/errors';

/** The file system functions that are used. A test replaces some of them with failing ones. */
export type FileSystem = Pick<
  typeof nodeFs,
  'mkdir' | 'open' | 'readdir' | 'readFile' | 'rename' | 'rm' | 'rmdir' | 'stat' | 'statfs'
>;

const MAX_MOVE_RETRIES = 10;
const DISK_FULL_CODES = new Set(['ENOSPC', 'EDQUOT']);

/** File operations that leave a file either complete and on disk, or absent. */
export class Disk {
  constructor(readonly fs: FileSystem = nodeFs) {}

  /**
   * Creates a file from what `fill` appends and resolves when it is on disk. An incomplete file is removed. Throws
   * `storage_full`.
   */
  async write(path: string, fill: (append: (bytes: Uint8Array) => Promise<void>) => Promise<void>): Promise<void> {
    const file = await mapDiskFullError(this.fs.open(path, 'wx', 0o600));
    try {
      await fill(async (bytes) => await mapDiskFullError(file.appendFile(bytes)));
      await mapDiskFullError(file.sync());
      await file.close();
    } catch (error) {
      await file.close();
      await this.fs.rm(path, { force: true });
      throw error;
    }
  }

  /**
   * Moves a file and creates the target folder if it is missing. The move is on disk only after `syncFolders`. Throws
   * `storage_full`.
   */
  async move(from: string, to: string): Promise<void> {
    for (let retriesLeft = MAX_MOVE_RETRIES; ; retriesLeft -= 1) {
      try {
        await this.createFolder(dirname(to));
        await mapDiskFullError(this.fs.rename(from, to));
        return;
      } catch (error) {
        // ENOENT: another process just removed the folder, because it was empty.
        if (getErrorCode(error) !== 'ENOENT' || retriesLeft === 0) throw error;
      }
    }
  }

  /** Creates a folder and its parents, for this user only. Throws `storage_full`. */
  async createFolder(path: string): Promise<void> {
    await mapDiskFullError(this.fs.mkdir(path, { recursive: true, mode: 0o700 }));
  }

  /**
   * Syncs the entries of a folder and of its parents up to `top`. Call it after adding a file, even to an existing
   * folder: its creator may not have synced it yet.
   */
  async syncFolders(path: string, top: string): Promise<void> {
    if (process.platform === 'win32') return; // on this platform a folder cannot be opened
    for (let folder = path; ; folder = dirname(folder)) {
      await this.syncFolder(folder);
      if (folder === top) return;
    }
  }

  /** Removes a folder and its parent if they are empty. */
  async removeIfEmpty(path: string): Promise<void> {
    try {
      await this.fs.rmdir(path);
      await this.fs.rmdir(dirname(path));
    } catch {
      // not empty, or not possible: an empty folder does no harm
    }
  }

  /** Returns the bytes that are free for this user, and the total; both 0 if the drive does not report them. */
  async getSpace(path: string): Promise<{ readonly free: number; readonly total: number }> {
    const { bavail, blocks, bsize } = await this.fs.statfs(path);
    return { free: bavail * bsize, total: blocks * bsize };
  }

  /** Removes files. Ignores missing ones. */
  async remove(...paths: readonly string[]): Promise<void> {
    for (const path of paths) await this.fs.rm(path, { force: true });
  }

  /** Removes a folder with its content. */
  async removeFolder(path: string): Promise<void> {
    await this.fs.rm(path, { recursive: true, force: true });
  }

  /** Reads a text file; undefined: it does not exist. */
  async readText(path: string): Promise<string | undefined> {
    return await ignoreMissing(this.fs.readFile(path, 'utf8'));
  }

  /** Returns the size and time of a file; undefined: it does not exist. */
  async stat(path: string): Promise<{ readonly size: number; readonly mtimeMs: number } | undefined> {
    return await ignoreMissing(this.fs.stat(path));
  }

  /** Lists a folder; empty if it is not a folder. */
  async listFolder(folder: string): Promise<readonly string[]> {
    return (await ignoreMissing(this.fs.readdir(folder))) ?? [];
  }

  /** Syncs the entries of one folder. */
  private async syncFolder(path: string): Promise<void> {
    const folder = await this.fs.open(path, 'r');
    try {
      await mapDiskFullError(folder.sync());
    } finally {
      await folder.close();
    }
  }
}

const getErrorCode = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? '';

/** Returns the result of a read; undefined if there is nothing at the path, or a folder in the path is a file. */
async function ignoreMissing<T>(read: Promise<T>): Promise<T | undefined> {
  return await read.catch((error: unknown) => {
    if (['ENOENT', 'ENOTDIR'].includes(getErrorCode(error))) return undefined;
    throw error;
  });
}

/** Returns the result of a write. Throws `storage_full` instead of the error of a full disk. */
async function mapDiskFullError<T>(write: Promise<T>): Promise<T> {
  return await write.catch((error: unknown) => {
    throw DISK_FULL_CODES.has(getErrorCode(error)) ? storageFull(error) : error;
  });
}

/** Creates the error for an image that the disk has no space for. `cause` is logged. */
export function storageFull(cause?: unknown): DomainError {
  return new DomainError(
    'unavailable',
    'storage_full',
    'the disk of the data folder is full or almost full and the image was not stored: free some space on the server, then try again',
    { cause, retryAfterMs: 60_000 },
  );
}
