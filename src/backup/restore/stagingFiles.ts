import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { syncFolder } from '../../kernel/syncFolder';

/** The name of a restore folder while it is being removed. */
export const REMOVED_FOLDER = '.restoring-removed';

/**
 * Removes a folder in the data folder. It is renamed first, so that it disappears as a whole for other processes even
 * if this one is killed in the middle.
 */
export function removeAtomically(dataDir: string, name: string): void {
  const removed = join(dataDir, REMOVED_FOLDER);
  rmSync(removed, { recursive: true, force: true });
  renameSync(join(dataDir, name), removed);
  syncFolder(dataDir);
  rmSync(removed, { recursive: true, force: true });
}

/** The text is on disk when it returns. The caller must sync the folder for the file name. */
export function writeSynced(file: string, text: string): void {
  writeFileSync(file, text, { mode: 0o600, flush: true });
}
