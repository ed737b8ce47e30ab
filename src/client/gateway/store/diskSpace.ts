import { statfsSync, type StatsFs } from 'node:fs';
import { dirname } from 'node:path';
import { GatewayError } from '../gatewayError';

const MIB = 1024 * 1024;
/** The free space that uplinks must leave: enough to checkpoint the log and to store commands and acknowledgements. */
const RESERVE_BYTES = 16 * MIB;
/** On a smaller disk, the reserve is this fraction of the disk. */
const RESERVE_DIVISOR = 4;
const SMALL_DISK_BYTES = 256 * MIB;

/**
 * Checks the free space on the disk of a store. While the server is unreachable, uplinks accumulate. If they filled the
 * disk, acknowledgements could not be written any more, and acknowledged uplinks could never be removed.
 */
export class DiskSpace {
  constructor(private readonly file: string) {}

  /** Whether the disk is so small that the log must be kept short. */
  get isSmall(): boolean {
    const disk = findDisk(this.file);
    return disk !== undefined && disk.blocks * disk.bsize < SMALL_DISK_BYTES;
  }

  /**
   * Throws GatewayError `store_full` if uplinks of this size would use the reserve for commands and acknowledgements.
   * `getReusableBytes` returns the free bytes inside the file.
   */
  assertSpaceFor(bytes: number, getReusableBytes: () => number): void {
    const disk = findDisk(this.file);
    if (!disk) return; // The size is unknown; SQLite reports a full disk.
    const reserve = Math.min(RESERVE_BYTES, (disk.blocks * disk.bsize) / RESERVE_DIVISOR);
    const needed = reserve + 2 * bytes; // Once in the log and once in the file.
    const free = disk.bavail * disk.bsize;
    if (free >= needed || free + getReusableBytes() >= needed) return;
    throw new GatewayError(
      'store_full',
      `the disk of the store ${this.file} is full: ${(free / MIB).toFixed(1)} MiB are free, of which ${(reserve / MIB).toFixed(1)} MiB are reserved for commands and acknowledgements; free some space, and the gateway continues automatically`,
    );
  }
}

/** Returns the disk of a file; undefined if it does not report its size or is unavailable. */
export function findDisk(file: string): StatsFs | undefined {
  try {
    const disk = statfsSync(dirname(file));
    return disk.blocks === 0 ? undefined : disk;
  } catch {
    return undefined;
  }
}
