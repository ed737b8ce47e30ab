import { setFlagsFromString } from 'node:v8';

const LITTLE = 600 * 1024 * 1024;

/**
 * Where this process may take little memory, in a container of 512 MiB or less, its heap grows in small steps: by itself V8 lets it grow up to all
 * that the container has, and the rest of the program needs half of that. `allowed`: in bytes; 0 where the machine does not tell. Answers whether it is little.
 */
export function spareMemory(allowed = process.constrainedMemory()): boolean {
  const isLittle = allowed > 0 && allowed < LITTLE;
  if (isLittle) setFlagsFromString('--optimize-for-size');
  return isLittle;
}
