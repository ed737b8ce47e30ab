import { totalmem } from 'node:os';

const MIB = 1024 * 1024;

/**
 * How much memory looking at a picture may take, in bytes: a quarter of what this process may use (of the machine, or as its container is allowed),
 * but always enough for a small one. The rest is the server's, and of what runs beside it.
 */
export function memoryForPicture(): number {
  const allowed = process.constrainedMemory(); // 0, or more than there is: not limited
  const usable = allowed > 0 ? Math.min(allowed, totalmem()) : totalmem();
  return Math.max(64 * MIB, Math.floor(usable / 4));
}
