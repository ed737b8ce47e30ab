import { GatewayError } from '../gatewayError';
import { findDisk } from './diskSpace';

/** With less free space than this, the disk counts as full: not even a page of the log fits. */
const MIN_FREE_BYTES = 64 * 1024;
const FULL_DISK_CODES = new Set(['SQLITE_FULL', 'ENOSPC', 'EDQUOT', 'EFBIG']);

/** Returns the code of an error of SQLite or of the file system; empty if it has none. */
export function getErrorCode(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return typeof code === 'string' ? code : '';
}

/**
 * Returns the message of an error. It does not check the class, because the native addon is loaded once per process and
 * its errors may have the class of another copy of the package.
 */
export function getErrorMessage(error: unknown): string {
  const { message } = (error ?? {}) as { readonly message?: unknown };
  return typeof message === 'string' ? message : String(error);
}

/** Converts an error of using a store to a GatewayError `store_full`, `store_corrupt` or `store_failed`. */
export function toStoreError(file: string, error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  const code = getErrorCode(error);
  const cause = { cause: error };
  const message = getErrorMessage(error);
  if (isCorruption(code)) return storeCorrupt(file, message, error);
  if (isDiskFull(file, code)) {
    return new GatewayError(
      'store_full',
      `the disk of the store ${file} is full; free some space, and the gateway continues automatically`,
      cause,
    );
  }
  return new GatewayError(
    'store_failed',
    `the store ${file} cannot be used (${code || message}); check the disk, and that this user may read and write the file and its folder`,
    cause,
  );
}

/** Creates the error `store_corrupt` for a file. `why`: what is wrong with it. */
export function storeCorrupt(file: string, why: string, cause?: unknown): GatewayError {
  const advice = `move ${file} and ${file}-wal away and start again with a new store: running commands finish as unconfirmed on the server, and unacknowledged uplinks are lost`;
  return new GatewayError('store_corrupt', `the store ${file} is corrupt: ${why}; ${advice}`, { cause });
}

function isCorruption(code: string): boolean {
  return code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB';
}

/**
 * Whether an error means that the disk is full. Some file systems and quotas report that with other codes, which SQLite
 * turns into a write error, so the free space is checked too.
 */
function isDiskFull(file: string, code: string): boolean {
  if (FULL_DISK_CODES.has(code)) return true;
  const disk = code.startsWith('SQLITE_IOERR') ? findDisk(file) : undefined;
  return disk !== undefined && disk.bavail * disk.bsize < MIN_FREE_BYTES;
}
