import { once } from 'node:events';
import { open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';

/** Where an export goes. */
export interface ExportTarget {
  /** Resolves when more may be written. */
  write(text: string): Promise<void>;
  /** All of it is written. */
  finish(): Promise<void>;
  /** Nothing of it is to stay, as far as that is possible. */
  discard(): Promise<void>;
}

/** The standard output; what is written there stays. `signal` ends the waiting for whoever reads it. */
export function stdoutTarget(signal: AbortSignal): ExportTarget {
  return {
    write: async (text) => {
      if (text !== '' && !process.stdout.write(text)) await once(process.stdout, 'drain', { signal });
    },
    finish: async () => {},
    discard: async () => {},
  };
}

/** A file that is there, or replaced, only when all of it is on disk; until then it grows beside it. */
export async function fileTarget(file: string): Promise<ExportTarget> {
  const path = resolve(file);
  const aside = join(dirname(path), `.${basename(path)}.${process.pid}.part`);
  const handle = await open(aside, 'w');
  return {
    write: async (text) => {
      await handle.writeFile(text);
    },
    finish: async () => {
      await handle.sync();
      await handle.close();
      await rename(aside, path);
    },
    discard: async () => {
      await handle.close();
      await rm(aside, { force: true });
    },
  };
}
