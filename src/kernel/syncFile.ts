import { closeSync, fsyncSync, openSync } from 'node:fs';

/** Flushes the content of a file to disk, whichever process wrote it. */
export function syncFile(file: string): void {
  const handle = openSync(file, 'r+');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
