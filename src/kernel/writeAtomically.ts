import { open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Writes a file atomically: after a power failure either the old or the new content exists. */
export async function writeAtomically(path: string, text: string, mode: number): Promise<void> {
  const temporaryPath = `${path}.new`;
  const file = await open(temporaryPath, 'w', mode);
  try {
    await file.chmod(mode); // A draft left behind by a crash may have another mode.
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporaryPath, path);
  await syncFolder(dirname(path));
}

async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return; // A folder cannot be opened on Windows.
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
