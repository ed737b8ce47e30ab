import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Returns the path itself if it exists, else its nearest existing parent folder. */
export function findNearestExisting(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : findNearestExisting(dirname(path));
}

/** Whether this user has the given access (`constants.R_OK` and so on) to a path. */
export function canAccess(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    return false;
  }
}

/** Whether this user can list and read a folder. */
export const canReadFolder = (folder: string): boolean => canAccess(folder, constants.R_OK | constants.X_OK);

/** Whether this user can create files in a folder. */
export const canWriteFolder = (folder: string): boolean =>
  canAccess(folder, constants.R_OK | constants.W_OK | constants.X_OK);

/** Returns the size of a file in a folder, in bytes; 0 if it does not exist. */
export function getSize(folder: string, name: string): number {
  return statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0;
}
