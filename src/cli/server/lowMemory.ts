import { setFlagsFromString } from 'node:v8';

const LOW_MEMORY_BYTES = 600 * 1024 * 1024;

/**
 * Reduces heap growth if the memory limit is below 600 MiB, for example in a container of 512 MiB. By default, V8 lets
 * the heap grow up to the limit of the container, but the rest of the program needs half of it. `allowed`: the limit in
 * bytes; 0 if unknown. Returns whether the limit is low.
 */
export function reduceMemoryUse(allowed = process.constrainedMemory()): boolean {
  const isLow = allowed > 0 && allowed < LOW_MEMORY_BYTES;
  if (isLow) setFlagsFromString('--optimize-for-size');
  return isLow;
}
