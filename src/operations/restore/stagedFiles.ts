import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { syncFolder } from '../../kernel/syncFolder';

/** What a folder of a restore is called while it is removed. */
export const REMOVED_FOLDER = '.restoring-removed';

/** Removes a folder in the data folder, at once as far as others see: a kill in the middle leaves nothing by its name. */
export function removeAtOnce(dataDir: string, name: string): void {
  const removed = join(dataDir, REMOVED_FOLDER);
  rmSync(removed, { recursive: true, force: true });
  renameSync(join(dataDir, name), removed);
  syncFolder(dataDir);
  rmSync(removed, { recursive: true, force: true });
}

/** The text is on disk when it returns; of the file's name the folder has to be synced. */
export function writeSynced(file: string, text: string): void {
  writeFileSync(file, text, { mode: 0o600, flush: true });
}
