import { randomBytes } from 'node:crypto';
import { rmSync, statSync, truncateSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { freeBytes } from '../kernel/freeBytes';
import { pause } from '../kernel/pause';
import { codeOf } from './translate';

/** The name of the reserve in the data folder. */
export const RESERVE_FILE = '.reserve';

const CHUNK = 1024 * 1024;
const BETWEEN_CHUNKS_MS = 10;
/** With less than this free no server comes up. */
const LEAST_TO_START = 1024 * 1024;

/** Gives the reserve of a folder free where the disk is so full that not even a server could start, which then clears up. */
export function releaseToStart(dataDir: string): void {
  const reserve = new ReserveFile(dataDir, 0);
  if (reserve.kept() === 0) return;
  if ((freeBytes(dataDir) ?? Infinity) < LEAST_TO_START) reserve.release();
}

/** Space that a file keeps from everybody else, until it is needed for cleaning up. */
export class ReserveFile {
  private readonly path: string;
  private making: AbortController | undefined;
  private made: Promise<boolean> | undefined;
  private isReleased = false;

  /** `bytes`: how large it is when it is whole. */
  constructor(
    dataDir: string,
    readonly bytes: number,
  ) {
    this.path = join(dataDir, RESERVE_FILE);
  }

  /** It was given free, by this server or the one before, and not made anew since. */
  get wasReleased(): boolean {
    return statSync(this.path, { throwIfNoEntry: false })?.size === 0;
  }

  /** How many bytes it keeps just now. */
  kept(): number {
    return statSync(this.path, { throwIfNoEntry: false })?.size ?? 0;
  }

  /** Makes it whole, piece by piece so that nobody waits for the disk. False: there was no room, or it was released meanwhile; then it keeps nothing. */
  async make(): Promise<boolean> {
    this.isReleased = false;
    if (this.kept() === this.bytes) return true;
    return await (this.made ??= this.fill().finally(() => (this.made = undefined)));
  }

  /** Gives the space back at once; returns how much that was, in bytes. Throws what the file system throws. */
  release(): number {
    this.making?.abort();
    this.isReleased = true;
    const kept = this.kept();
    if (kept > 0) truncateSync(this.path); // the empty file says that it was released
    return kept;
  }

  /** There shall be none. */
  remove(): void {
    rmSync(this.path, { force: true });
  }

  /** Leaves off making it; resolves when nothing is written any more. */
  async stop(): Promise<void> {
    this.making?.abort();
    await this.made;
  }

  private async fill(): Promise<boolean> {
    const making = new AbortController();
    this.making = making;
    try {
      await this.write(making.signal);
    } catch (error) {
      if (!NO_ROOM.has(codeOf(error))) throw error;
      making.abort();
    }
    if (making.signal.aborted) this.leaveOff();
    return !making.signal.aborted;
  }

  private leaveOff(): void {
    if (this.isReleased) truncateSync(this.path);
    else this.remove();
  }

  /** Bytes that no file system makes smaller, and no hole: what is not written is not kept. */
  private async write(signal: AbortSignal): Promise<void> {
    const chunk = randomBytes(CHUNK);
    const file = await open(this.path, 'w', 0o600);
    try {
      for (let left = this.bytes; left > 0 && !signal.aborted; left -= CHUNK) {
        await file.write(chunk, 0, Math.min(left, CHUNK));
        await pause(BETWEEN_CHUNKS_MS, signal);
      }
      await file.sync();
    } finally {
      await file.close();
    }
  }
}

// Quotas say it in their own way.
const NO_ROOM = new Set(['ENOSPC', 'EDQUOT', 'EFBIG', 'EROFS']);
