import { GatewayError } from '../gatewayError';
import { findDisk } from './diskRoom';

/** Less than this is a full disk: not even a page of the log fits. */
const NO_ROOM_BYTES = 64 * 1024;
const FULL = new Set(['SQLITE_FULL', 'ENOSPC', 'EDQUOT', 'EFBIG']);

/** The code of an error of SQLite or of the file system; empty: it has none. */
export function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return typeof code === 'string' ? code : '';
}

/** What an error says. Not by its class: the machine code is loaded once for a process, and its errors are of whoever loaded it first. */
export function messageOf(error: unknown): string {
  const { message } = (error ?? {}) as { readonly message?: unknown };
  return typeof message === 'string' ? message : String(error);
}

/** What went wrong while a store was used, as a GatewayError `store_full`, `store_damaged` or `store_failed`. */
export function storeFailure(file: string, error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  const code = codeOf(error);
  const cause = { cause: error };
  const said = messageOf(error);
  if (isDamage(code)) return damaged(file, said, error);
  if (isFull(file, code)) return new GatewayError('store_full', `the disk of the store ${file} is full; make room, and it goes on by itself`, cause);
  return new GatewayError('store_failed', `the store ${file} could not be used (${code || said}); see that its disk is well and that this user may read and write the file and its folder`, cause);
}

/** The file cannot be read as what it was. */
export function damaged(file: string, why: string, cause?: unknown): GatewayError {
  const advice = `move ${file} and ${file}-wal away and start again with a new store: what was under way ends as unconfirmed on the server, uplinks that were not acknowledged are lost`;
  return new GatewayError('store_damaged', `the store ${file} is damaged: ${why}; ${advice}`, { cause });
}

function isDamage(code: string): boolean {
  return code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB';
}

function isFull(file: string, code: string): boolean {
  if (FULL.has(code)) return true;
  // A quota, and some file systems, say it in their own way, of which SQLite makes an error of writing.
  const disk = code.startsWith('SQLITE_IOERR') ? findDisk(file) : undefined;
  return disk !== undefined && disk.bavail * disk.bsize < NO_ROOM_BYTES;
}
