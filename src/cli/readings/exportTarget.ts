import { once } from 'node:events';
import { access, constants, open, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { UsageError } from '../exit';

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

/** Throws UsageError for a file that an export cannot be written to, and leaves nothing behind. */
export async function requireWritable(file: string): Promise<void> {
  const { path, aside } = await placeOf(file);
  await access(aside === path ? path : dirname(path), constants.W_OK).catch((error: unknown) => refuse(file, error));
}

/**
 * A file that is there, or replaced, only when all of it is on disk; until then it grows beside it. What is no plain file (a pipe, a
 * device) is written to as it is. Throws UsageError for what cannot be begun, and an Error that says what to do for what fails later.
 * `what`: what is written, for such messages.
 */
export async function fileTarget(file: string, what: string): Promise<ExportTarget> {
  const told = async (work: Promise<void>): Promise<void> => await toldOf(what, file, work);
  const { path, aside } = await placeOf(file);
  const handle = await open(aside, 'w').catch((error: unknown) => refuse(file, error));
  const discard = async (): Promise<void> => {
    await handle.close().catch(() => {}); // a full disk can refuse this too, and the descriptor is gone all the same
    if (aside !== path) await rm(aside, { force: true });
  };
  return {
    write: async (text) => await told(handle.writeFile(text)),
    finish: async () => {
      if (aside === path) return await told(handle.close());
      await told(handle.sync());
      await told(handle.close());
      await told(rename(aside, path));
    },
    discard,
  };
}

/** Where a file comes to be, and where it grows until then. */
async function placeOf(file: string): Promise<{ readonly path: string; readonly aside: string }> {
  const path = await realpath(file).catch(() => resolve(file));
  const there = await stat(path).catch(() => undefined);
  if (there?.isDirectory()) throw new UsageError(`--output ${file} is a folder; give a file in it, for example ${join(file, 'readings.csv')}`);
  if (there && !there.isFile()) return { path, aside: path };
  const folder = dirname(path);
  const parent = await stat(folder).catch(() => undefined);
  if (parent && !parent.isDirectory()) throw new UsageError(`--output ${file} cannot be written: ${folder} is a file; give a file in a folder`);
  if (!parent) throw new UsageError(`--output ${file} cannot be written: there is no folder ${folder}; make it first, or give a file in another one`);
  return { path, aside: join(folder, `.${basename(path)}.${process.pid}.part`) };
}

function refuse(file: string, error: unknown): never {
  throw new UsageError(`--output ${file} cannot be written (${codeOf(error)}); give a file in a folder that is there and may be written to`, { cause: error });
}

const FAULTS: Readonly<Record<string, string>> = {
  ENOSPC: 'its disk is full (ENOSPC); make room there, or give --output on another disk',
  EDQUOT: 'the quota of its disk is used up (EDQUOT); make room there, or give --output on another disk',
  EFBIG: 'it would be larger than a file may be there (EFBIG); ask for a shorter time, or give --output on another disk',
};

async function toldOf(what: string, file: string, work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    const code = codeOf(error);
    throw new Error(`${what} cannot be written to ${file}: ${FAULTS[code] ?? `its disk refuses (${code}); look after it, or give --output on another disk`}`, { cause: error });
  }
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unknown';
}
