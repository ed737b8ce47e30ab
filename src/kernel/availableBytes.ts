import { statfsSync } from 'node:fs';

/**
 * Returns the number of bytes that this user can still write on the disk of a folder; undefined if the file system does
 * not report it (some network file systems). Throws if the folder does not exist.
 */
export function getAvailableBytes(folder: string): number | undefined {
  const { bavail, blocks, bsize } = statfsSync(folder);
  return blocks === 0 ? undefined : bavail * bsize;
}

/** Formats a number of bytes in MiB, rounded up. */
export const formatMib = (bytes: number): string => `${Math.ceil(bytes / 1024 / 1024)} MiB`;
