import { chownSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Changes the owner of a new file or folder to the owner of its parent (or of another folder), if the process runs as
 * root. Otherwise a command run with sudo would leave files that the service cannot use. Does nothing for other users.
 */
export function chownToParent(path: string, folder = dirname(path)): void {
  if (process.geteuid?.() !== 0) return;
  const { uid, gid } = statSync(folder);
  if (statSync(path).uid === uid) return;
  try {
    chownSync(path, uid, gid);
  } catch {
    // The file system has no owners, or is a network share that maps root to another user.
  }
}
