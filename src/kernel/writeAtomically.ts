import { open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Writes a file as a whole or not at all; a power cut leaves the old one or the new one. */
export async function writeAtomically(path: string, text: string, mode: number): Promise<void> {
  const draft = `${path}.new`;
  const file = await open(draft, 'w', mode);
  try {
    await file.chmod(mode); // a draft that a crash left behind may have another mode
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(draft, path);
  await syncFolder(dirname(path));
}

async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return; // there a folder cannot be opened
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
