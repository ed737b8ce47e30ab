import { statfsSync, type StatsFs } from 'node:fs';
import { dirname } from 'node:path';
import { GatewayError } from '../gatewayError';

const MIB = 1024 * 1024;
/** What uplinks leave free: enough that the log can be taken over into the file, and commands and acknowledgements go on. */
const RESERVE_BYTES = 16 * MIB;
/** Of a smaller disk it is this part. */
const RESERVE_PART = 4;
const SMALL_DISK_BYTES = 256 * MIB;

/**
 * The room on the disk of a store. Uplinks come without end while the server is away; were they to fill the disk, then no acknowledgement could be written
 * any more, and what the server has would never be removed.
 */
export class DiskRoom {
  constructor(private readonly file: string) {}

  /** Whether the log is to be kept short. */
  get isSmall(): boolean {
    const disk = findDisk(this.file);
    return disk !== undefined && disk.blocks * disk.bsize < SMALL_DISK_BYTES;
  }

  /** Throws GatewayError `store_full` where uplinks of this size would take what commands and acknowledgements need. `reusable`: bytes that are free inside of the file. */
  requireFor(bytes: number, reusable: () => number): void {
    const disk = findDisk(this.file);
    if (!disk) return; // it does not tell: the engine says when it is full
    const reserve = Math.min(RESERVE_BYTES, (disk.blocks * disk.bsize) / RESERVE_PART);
    const needed = reserve + 2 * bytes; // once in the log, once in the file
    const free = disk.bavail * disk.bsize;
    if (free >= needed || free + reusable() >= needed) return;
    throw new GatewayError('store_full', `the disk of the store ${this.file} is full: ${(free / MIB).toFixed(1)} MiB are free, of which ${(reserve / MIB).toFixed(1)} are left to commands and acknowledgements; make room, and it goes on by itself`);
  }
}

/** The disk that a file lies on; undefined: it does not tell how large it is, or is away. */
export function findDisk(file: string): StatsFs | undefined {
  try {
    const disk = statfsSync(dirname(file));
    return disk.blocks === 0 ? undefined : disk;
  } catch {
    return undefined;
  }
}
