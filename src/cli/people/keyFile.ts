import { closeSync, fchmodSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { UsageError } from '../exit';

/** A file that a new key goes to, and nothing else of it. */
export interface KeyFile {
  /** Writes the key; it is on disk when this returns. Throws if it cannot be. */
  keep(key: string): void;
  /** There is no key to keep: no file stays. */
  discard(): void;
}

/** Makes the file, readable for this user only, before the key is made, so that no key is made and then lost. Throws a UsageError, also where there is a file already. */
export function openKeyFile(path: string): KeyFile {
  const descriptor = opened(path);
  return {
    keep: (key) => {
      fchmodSync(descriptor, 0o600); // whatever the umask took away
      writeSync(descriptor, `${key}\n`);
      fsyncSync(descriptor);
      flushFolder(dirname(path));
      closeSync(descriptor);
    },
    discard: () => {
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

function flushFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
