import { closeSync, fchmodSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncFolder } from '../../kernel/syncFolder';
import { UsageError } from '../exit';

/** The length of a key (`plr_` and 49 characters) with the line feed. */
const KEY_LINE_LENGTH = 54;

/** A file that contains only a new key. */
interface KeyFile {
  /** Writes the key and syncs it to disk. Throws if that fails. */
  writeKey(key: string): void;
  /** Deletes the file, unless a key was written to it. */
  discard(): void;
}

/**
 * Creates the file for a new API key, readable only by this user, and reserves its space. Call it before the key is
 * created, so that no created key is lost. Throws a UsageError if that fails or the file already exists.
 */
export function openKeyFile(path: string): KeyFile {
  const descriptor = createFile(path);
  reserveSpace(descriptor, path);
  let isWritten = false;
  return {
    writeKey: (key) => {
      fchmodSync(descriptor, 0o600); // independent of the umask
      writeFully(descriptor, `${key}\n`);
      fsyncSync(descriptor);
      syncFolder(dirname(path));
      closeSync(descriptor);
      isWritten = true;
    },
    discard: () => {
      if (isWritten) return;
      closeSync(descriptor);
      rmSync(path, { force: true });
    },
  };
}

/** Creates an empty file and returns its descriptor. Throws a UsageError if that fails or the file already exists. */
function createFile(path: string): number {
  try {
    return openSync(path, 'wx', 0o600);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'EEXIST' ? 'it already exists' : (code ?? 'unknown');
    throw new UsageError(
      `cannot create the key file ${path} (${why}): choose a new file in a folder that this user can write to`,
      { cause: error },
    );
  }
}

/**
 * Reserves the space for the key, so that a full disk is detected before the key is created. Deletes the file and
 * throws a UsageError if that fails.
 */
function reserveSpace(descriptor: number, path: string): void {
  try {
    writeFully(descriptor, ' '.repeat(KEY_LINE_LENGTH));
    fsyncSync(descriptor);
  } catch (error) {
    closeSync(descriptor);
    rmSync(path, { force: true });
    throw new UsageError(
      `cannot write the key file ${path} (${(error as NodeJS.ErrnoException).code ?? 'unknown'}): free some disk space, or choose a file on another disk`,
      { cause: error },
    );
  }
}

/** Writes the text at the start of the file, in several steps if necessary. */
function writeFully(descriptor: number, text: string): void {
  const bytes = Buffer.from(text);
  // A write may store fewer bytes than requested.
  for (let offset = 0; offset < bytes.length;)
    offset += writeSync(descriptor, bytes, offset, bytes.length - offset, offset);
}
