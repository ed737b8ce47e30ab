import { closeSync, fsyncSync, openSync } from 'node:fs';

/** Flushes the entries of a folder to disk. Does nothing on Windows, where a folder cannot be opened. */
export function syncFolder(path: string): void {
  if (process.platform === 'win32') return;
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
