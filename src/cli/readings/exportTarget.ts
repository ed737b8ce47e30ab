import { once } from 'node:events';
import { access, constants, open, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { UsageError } from '../exit';

/** The destination of an export. */
export interface ExportTarget {
  /** Writes text. Resolves when more can be written. */
  write(text: string): Promise<void>;
  /** Completes the export. */
  finish(): Promise<void>;
  /** Discards what was written, if that is possible. */
  discard(): Promise<void>;
}

/** Writes to standard output, which cannot be discarded. `signal` aborts waiting for a slow reader. */
export function createStdoutTarget(signal: AbortSignal): ExportTarget {
  return {
    write: async (text) => {
      if (text !== '' && !process.stdout.write(text)) await once(process.stdout, 'drain', { signal });
    },
    finish: async () => {},
    discard: async () => {},
  };
}

/** Throws UsageError if an export cannot be written to this file. Creates nothing. */
export async function assertWritable(file: string): Promise<void> {
  const { path, temporaryPath } = await resolvePaths(file);
  await access(temporaryPath === path ? path : dirname(path), constants.W_OK).catch((error: unknown) =>
    throwNotWritable(file, error),
  );
}

/**
 * Writes to a temporary file in the same folder, which replaces the output file when it is complete and on disk. A pipe
 * or a device is written directly. Throws UsageError if the file cannot be opened; later failures are Errors that
 * explain the fix. `what`: the exported items, for these messages.
 */
export async function openFileTarget(file: string, what: string): Promise<ExportTarget> {
  const finishWrite = async (write: Promise<void>): Promise<void> => await awaitWrite(what, file, write);
  const { path, temporaryPath } = await resolvePaths(file);
  const handle = await open(temporaryPath, 'w').catch((error: unknown) => throwNotWritable(file, error));
  const discard = async (): Promise<void> => {
    await handle.close().catch(() => {}); // close can also fail on a full disk; the descriptor is released in any case
    if (temporaryPath !== path) await rm(temporaryPath, { force: true });
  };
  return {
    write: async (text) => await finishWrite(handle.writeFile(text)),
    finish: async () => {
      if (temporaryPath === path) return await finishWrite(handle.close());
      await finishWrite(handle.sync());
      await finishWrite(handle.close());
      await finishWrite(rename(temporaryPath, path));
    },
    discard,
  };
}

/** Returns the path of the output file, and the path to write to until it is complete. */
async function resolvePaths(file: string): Promise<{ readonly path: string; readonly temporaryPath: string }> {
  const path = await realpath(file).catch(() => resolve(file));
  const existing = await stat(path).catch(() => undefined);
  if (existing?.isDirectory())
    throw new UsageError(`--output ${file} is a folder: name a file in it, for example ${join(file, 'readings.csv')}`);
  // A pipe or a device has no content to protect, and cannot be replaced.
  if (existing && !existing.isFile()) return { path, temporaryPath: path };
  const folder = dirname(path);
  const parent = await stat(folder).catch(() => undefined);
  if (parent && !parent.isDirectory())
    throw new UsageError(`--output ${file} cannot be written: ${folder} is a file, not a folder`);
  if (!parent)
    throw new UsageError(
      `--output ${file} cannot be written: the folder ${folder} does not exist. Create it first, or choose another folder`,
    );
  return { path, temporaryPath: join(folder, `.${basename(path)}.${process.pid}.part`) };
}

function throwNotWritable(file: string, error: unknown): never {
  throw new UsageError(
    `--output ${file} cannot be written (${getErrorCode(error)}): choose a file in a folder that exists and is writable`,
    { cause: error },
  );
}

const WRITE_ERRORS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full (ENOSPC). Free some space, or choose another disk with --output',
  EDQUOT: 'the disk quota is used up (EDQUOT). Free some space, or choose another disk with --output',
  EFBIG:
    'the file would exceed the maximum file size (EFBIG). Export a shorter time range, or choose another disk with --output',
};

/** Waits for a write. Its failure becomes an Error that says what to do. */
async function awaitWrite(what: string, file: string, write: Promise<void>): Promise<void> {
  try {
    await write;
  } catch (error) {
    const code = getErrorCode(error);
    throw new Error(
      `${what} cannot be written to ${file}: ${WRITE_ERRORS[code] ?? `write error (${code}). Check the disk, or choose another disk with --output`}`,
      { cause: error },
    );
  }
}

function getErrorCode(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unknown';
}
