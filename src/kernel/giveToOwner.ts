import { chownSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Gives a file or folder that was just made to whom the folder around it (or another one) belongs, where root made it: a command that somebody
 * ran by sudo must not leave in a service's folder what the service cannot use. Anybody else's stays as it is.
 */
export function giveToOwner(path: string, folder = dirname(path)): void {
  if (process.geteuid?.() !== 0) return;
  const { uid, gid } = statSync(folder);
  if (statSync(path).uid === uid) return;
  try {
    chownSync(path, uid, gid);
  } catch {
    // a disk without owners, or of another machine that takes root for nobody
  }
}
