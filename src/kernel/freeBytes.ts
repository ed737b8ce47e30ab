import { statfsSync } from 'node:fs';

/** How many bytes this user may still write on the disk of a folder; undefined: the drive does not tell, as some of other machines do not. Throws if the folder is away. */
export function freeBytes(folder: string): number | undefined {
  const { bavail, blocks, bsize } = statfsSync(folder);
  return blocks === 0 ? undefined : bavail * bsize;
}
