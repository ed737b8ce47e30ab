import { totalmem } from 'node:os';

const MIB = 1024 * 1024;

/**
 * Returns the memory limit for decoding an image, in bytes: a quarter of what this process may use (of the machine or
 * its container), but always enough for a small image. The rest is for the server and the other programs of the
 * machine.
 */
export function getMaxImageMemory(): number {
  const constrainedBytes = process.constrainedMemory(); // 0, or more than the machine has: not limited
  const usableBytes = constrainedBytes > 0 ? Math.min(constrainedBytes, totalmem()) : totalmem();
  return Math.max(64 * MIB, Math.floor(usableBytes / 4));
}
