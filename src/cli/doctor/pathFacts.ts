import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The folder itself, or the nearest one above that exists. */
export function nearestExisting(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearestExisting(dirname(path));
}

/** Whether this user may do that (`constants.R_OK` and so on) with it. */
export function mayUse(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    return false;
  }
}

/** Whether this user may look into a folder. */
export const mayLookInto = (folder: string): boolean => mayUse(folder, constants.R_OK | constants.X_OK);

/** Whether this user may make files in a folder. */
export const mayWriteInto = (folder: string): boolean => mayUse(folder, constants.R_OK | constants.W_OK | constants.X_OK);

/** The size of a file of a folder, bytes; 0 if there is none. */
export function sizeOf(folder: string, name: string): number {
  return statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0;
}

const MEBIBYTE = 1024 * 1024;

/** Bytes as people read them. */
export const mib = (bytes: number): string => `${Math.ceil(bytes / MEBIBYTE)} MiB`;
