import { closeSync, fsyncSync, openSync } from 'node:fs';

/** Puts what a file holds on disk, whoever wrote it. */
export function syncFile(file: string): void {
  const handle = openSync(file, 'r+');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
