import { closeSync, fsyncSync, openSync } from 'node:fs';

/** Puts on disk that a file of the folder is there. On Windows a folder cannot be opened, and nothing is done. */
export function syncFolder(path: string): void {
  if (process.platform === 'win32') return;
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
