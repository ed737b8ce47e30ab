import { readFileSync } from 'node:fs';
import { relative, sep } from 'node:path';
import type { Db } from '../database';
import { MediaFiles } from './mediaFiles';
import { PictureListRepository } from './pictureListRepository';

/** The files that the pictures of a database are, as paths below its data folder with `/` between; whether they are there or not. */
export async function pictureFiles(db: Db, dataDir: string): Promise<readonly string[]> {
  const files = new MediaFiles(dataDir);
  const below = (file: string): string => relative(dataDir, file).split(sep).join('/');
  const found: string[] = [];
  for await (const contents of new PictureListRepository(db).contents()) found.push(...contents.flatMap((name) => files.filesOf(name)).map(below));
  return found.length === 0 ? [] : [below(files.owner), ...found];
}

/** How many bytes these files have together. */
export async function pictureBytes(db: Db): Promise<number> {
  return await new PictureListRepository(db).bytes();
}

/** The installation that the files of pictures of a data folder belong to, which is known without its database; undefined: they do not say. */
export function findMediaOwner(dataDir: string): string | undefined {
  try {
    return readFileSync(new MediaFiles(dataDir).owner, 'utf8').trim() || undefined;
  } catch {
    return undefined;
  }
}
