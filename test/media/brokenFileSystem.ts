import * as fs from 'node:fs/promises';
import type { FileSystem } from '../../src/media/disk';

/** Wraps the file system and calls `before` ahead of each operation. What it throws is the error of the operation. */
export function watchFileSystem(before: (operation: string, path: string) => void): FileSystem {
  const watched = <F extends (...given: never[]) => Promise<unknown>>(name: string, work: F): F =>
    (async (...given: Parameters<F>) => {
      before(name, String(given[0]));
      return await work(...given);
    }) as F;
  const open: typeof fs.open = async (path, ...rest) => {
    before('open', String(path));
    const file = await fs.open(path, ...rest);
    return Object.assign(file, {
      appendFile: watched('append', file.appendFile.bind(file)),
      sync: watched('sync', file.sync.bind(file)),
    });
  };
  const { mkdir, readdir, readFile, rename, rm, rmdir, stat, statfs } = fs;
  const others = Object.entries({ mkdir, readdir, readFile, rename, rm, rmdir, stat, statfs }).map(([name, work]) => [
    name,
    watched(name, work as (...given: never[]) => Promise<unknown>),
  ]);
  return { open, ...(Object.fromEntries(others) as Omit<FileSystem, 'open'>) };
}

/** Returns a file system whose operations of this name fail as on a full disk. */
export function createFullFileSystem(operation: string): FileSystem {
  return watchFileSystem((name) => {
    if (name === operation) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  });
}

const LOOKS = new Set(['readFile', 'readdir', 'stat', 'statfs']);

/**
 * Returns a file system that ends after this number of changes, as if the process had ended: later operations do
 * nothing.
 */
export function createEndingFileSystem(changes: number): FileSystem & { readonly ended: () => boolean } {
  let left = changes;
  const system = watchFileSystem((name) => {
    if (left >= 0 && !LOOKS.has(name)) left -= 1;
    if (left < 0) throw new Error('the process has ended');
  });
  return { ...system, ended: () => left < 0 };
}
