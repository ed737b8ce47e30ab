import { closeSync, fchmodSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncFolder } from '../../kernel/syncFolder';
import { UsageError } from '../exit';

/** `plr_`, 49 characters, and the end of the line. */
const KEY_AND_END = 54;

/** A file that a new key goes to, and nothing else of it. */
export interface KeyFile {
  /** Writes the key; it is on disk when this returns. Throws if it cannot be. */
  keep(key: string): void;
  /** There is no key to keep: no file stays. One that holds its key does. */
  discard(): void;
}

/** Makes the file, readable for this user only, before the key is made, so that no key is made and then lost. Throws a UsageError, also where there is a file already. */
export function openKeyFile(path: string): KeyFile {
  const descriptor = opened(path);
  reserve(descriptor, path);
  let isKept = false;
  return {
    keep: (key) => {
      fchmodSync(descriptor, 0o600); // whatever the umask took away
      writeWhole(descriptor, `${key}\n`);
      fsyncSync(descriptor);
      syncFolder(dirname(path));
      closeSync(descriptor);
      isKept = true;
    },
    discard: () => {
      if (isKept) return;
      closeSync(descriptor);
      rmSync(path, { force: true });
    },
  };
}

function opened(path: string): number {
  try {
    return openSync(path, 'wx', 0o600);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'EEXIST' ? 'there is one already, which is not replaced' : (code ?? 'unknown');
    throw new UsageError(`the key file ${path} cannot be made (${why}); name a new file in a folder that this user can write`, { cause: error });
  }
}

/** A full disk is told now, and not when the key is made. */
function reserve(descriptor: number, path: string): void {
  try {
    writeWhole(descriptor, ' '.repeat(KEY_AND_END));
    fsyncSync(descriptor);
  } catch (error) {
    closeSync(descriptor);
    rmSync(path, { force: true });
    throw new UsageError(`the key file ${path} cannot be written (${(error as NodeJS.ErrnoException).code ?? 'unknown'}); make room there, or name a file elsewhere`, { cause: error });
  }
}

function writeWhole(descriptor: number, text: string): void {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; ) at += writeSync(descriptor, bytes, at, bytes.length - at, at);
}
