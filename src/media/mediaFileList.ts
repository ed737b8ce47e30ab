import { readFileSync } from 'node:fs';
import { relative, sep } from 'node:path';
import type { Db } from '../database';
import { MediaFiles } from './mediaFiles';
import { MediaListRepository } from './mediaListRepository';

/**
 * Lists the files of the images of a database, as paths below its data folder separated by `/`, whether they exist or
 * not.
 */
export async function listMediaFiles(db: Db, dataDir: string): Promise<readonly string[]> {
  const files = new MediaFiles(dataDir);
  const getRelativePath = (file: string): string => relative(dataDir, file).split(sep).join('/');
  const found: string[] = [];
  for await (const contentNames of new MediaListRepository(db).listContents())
    found.push(...contentNames.flatMap((name) => files.listFiles(name)).map(getRelativePath));
  return found.length === 0 ? [] : [getRelativePath(files.ownerFile), ...found];
}

/** Returns the total size of the image files of all organizations in bytes, as recorded in the database. */
export async function sumMediaBytes(db: Db): Promise<number> {
  return await new MediaListRepository(db).sumBytes();
}

/** Reads the installation that owns the image files of a data folder, without its database; undefined: not recorded. */
export function findMediaOwner(dataDir: string): string | undefined {
  try {
    return readFileSync(new MediaFiles(dataDir).ownerFile, 'utf8').trim() || undefined;
  } catch {
    return undefined;
  }
}
