import { randomBytes } from 'node:crypto';
import { rmSync, statSync, truncateSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { getAvailableBytes } from '../kernel/availableBytes';
import { sleep } from '../kernel/sleep';
import { getCode } from './translate';

/** The name of the reserve file in the data folder. */
export const RESERVE_FILE = '.reserve';

const CHUNK_BYTES = 1024 * 1024;
const CHUNK_INTERVAL_MS = 10;
/** With less free space than this, no server can start. */
const MIN_FREE_BYTES_AT_START = 1024 * 1024;

/**
 * Releases the reserve of a folder if less than MIN_FREE_BYTES_AT_START are free. Otherwise no server could start, and
 * only a running server can delete data.
 */
export function releaseForStartup(dataDir: string): void {
  const reserve = new DiskReserve(dataDir, 0);
  if (reserve.getCurrentBytes() === 0) return;
  if ((getAvailableBytes(dataDir) ?? Infinity) < MIN_FREE_BYTES_AT_START) reserve.release();
}

/** Disk space that a file reserves. The space is released when the server needs it to delete data. */
export class DiskReserve {
  private readonly path: string;
  private abortController: AbortController | undefined;
  private creation: Promise<boolean> | undefined;
  private isReleased = false;

  /** `bytes`: the size of the whole reserve. */
  constructor(
    dataDir: string,
    readonly bytes: number,
  ) {
    this.path = join(dataDir, RESERVE_FILE);
  }

  /**
   * Whether the reserve was released, by this server or an earlier one, and not created again: its file exists and is
   * empty.
   */
  get wasReleased(): boolean {
    return statSync(this.path, { throwIfNoEntry: false })?.size === 0;
  }

  /** Returns how many bytes are reserved at the moment. */
  getCurrentBytes(): number {
    return statSync(this.path, { throwIfNoEntry: false })?.size ?? 0;
  }

  /**
   * Completes the reserve, in small pieces so that other writes do not wait. Returns whether it is complete. False:
   * there was too little space, or `release` was called meanwhile; then nothing is reserved. Concurrent callers share
   * one run.
   */
  async create(): Promise<boolean> {
    this.isReleased = false;
    if (this.getCurrentBytes() === this.bytes) return true;
    return await (this.creation ??= this.fill().finally(() => (this.creation = undefined)));
  }

  /** Releases the space immediately; returns the released bytes. Throws the errors of the file system. */
  release(): number {
    this.abortController?.abort();
    this.isReleased = true;
    const releasedBytes = this.getCurrentBytes();
    if (releasedBytes > 0) truncateSync(this.path); // the empty file records that it was released
    return releasedBytes;
  }

  /** Removes the reserve. */
  remove(): void {
    rmSync(this.path, { force: true });
  }

  /** Cancels `create`; resolves when nothing is being written any more. */
  async stop(): Promise<void> {
    this.abortController?.abort();
    await this.creation;
  }

  /** Writes the file; returns false, with nothing reserved, if the disk is full, or `release` or `stop` was called. */
  private async fill(): Promise<boolean> {
    const abortController = new AbortController();
    this.abortController = abortController;
    try {
      await this.write(abortController.signal);
    } catch (error) {
      if (!NO_SPACE_CODES.has(getCode(error))) throw error;
      abortController.abort();
    }
    if (abortController.signal.aborted) this.discardPartialFile();
    return !abortController.signal.aborted;
  }

  /**
   * Frees the space of an incomplete reserve. After a release, the empty file stays, because it records the release.
   */
  private discardPartialFile(): void {
    if (this.isReleased) truncateSync(this.path);
    else this.remove();
  }

  /** Writes random bytes, which a file system can neither compress nor store as a hole, and syncs the file. */
  private async write(signal: AbortSignal): Promise<void> {
    const chunk = randomBytes(CHUNK_BYTES);
    const file = await open(this.path, 'w', 0o600);
    try {
      for (let remaining = this.bytes; remaining > 0 && !signal.aborted; remaining -= CHUNK_BYTES) {
        await file.write(chunk, 0, Math.min(remaining, CHUNK_BYTES));
        await sleep(CHUNK_INTERVAL_MS, signal);
      }
      await file.sync();
    } finally {
      await file.close();
    }
  }
}

// Also quotas, limits of the file size, and a file system that is read-only: no space can be reserved.
const NO_SPACE_CODES = new Set(['ENOSPC', 'EDQUOT', 'EFBIG', 'EROFS']);
