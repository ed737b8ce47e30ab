import * as fs from 'node:fs/promises';
import type { FileSystem } from '../../src/media/disk';

/** The file system, with `before` called ahead of all that is asked of it; what it throws is what the file system answers. */
export function watchedFileSystem(before: (operation: string, path: string) => void): FileSystem {
  const watched = <F extends (...given: never[]) => Promise<unknown>>(name: string, work: F): F =>
    (async (...given: Parameters<F>) => {
      before(name, String(given[0]));
      return await work(...given);
    }) as F;
  const open: typeof fs.open = async (path, ...rest) => {
    before('open', String(path));
    const file = await fs.open(path, ...rest);
    return Object.assign(file, { appendFile: watched('append', file.appendFile.bind(file)), sync: watched('sync', file.sync.bind(file)) });
  };
  const { mkdir, readdir, readFile, rename, rm, rmdir, stat, statfs } = fs;
  const others = Object.entries({ mkdir, readdir, readFile, rename, rm, rmdir, stat, statfs }).map(([name, work]) => [name, watched(name, work as (...given: never[]) => Promise<unknown>)]);
  return { open, ...(Object.fromEntries(others) as Omit<FileSystem, 'open'>) };
}

/** One that fails as the disk does when it is full, at all operations of a name. */
export function fullAt(operation: string): FileSystem {
  return watchedFileSystem((name) => {
    if (name === operation) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  });
}

const LOOKS = new Set(['readFile', 'readdir', 'stat', 'statfs']);

/** One that ends after some changes of the disk, as a process does: nothing is done any more from then on. */
export function endingAfter(changes: number): FileSystem & { readonly ended: () => boolean } {
  let left = changes;
  const system = watchedFileSystem((name) => {
    if (left >= 0 && !LOOKS.has(name)) left -= 1;
    if (left < 0) throw new Error('the process has ended');
  });
  return { ...system, ended: () => left < 0 };
}
