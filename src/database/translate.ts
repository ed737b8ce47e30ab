import { DomainError } from '../kernel/errors';
import { getCode } from '../kernel/errorUtils';
import type { Dialect } from './engines/dialect';

export { getCode, formatMessage } from '../kernel/errorUtils';

/**
 * Runs one write. If the engine reports a duplicate value, throws the error that `onDuplicate` creates; any other error
 * is rethrown unchanged.
 */
export async function onUniqueViolation<T>(
  dialect: Dialect,
  onDuplicate: () => DomainError,
  write: () => Promise<T>,
): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw dialect.isUniqueViolation(error) ? onDuplicate() : error;
  }
}

/** A transaction took so long that it was rolled back, so that others can continue. */
export class TransactionTimeout extends Error {
  readonly code = 'TRANSACTION_TIMEOUT';
}

/**
 * Translates an error of the engine into a DomainError: `storage_full` or `storage_read_only` for errors of the disk,
 * `database_corrupt` for corruption, and `database_unavailable` for other temporary errors (busy, disconnected).
 * Returns any other error unchanged.
 */
export function translateError(dialect: Dialect, error: unknown): unknown {
  if (error instanceof DomainError) return error;
  const code = getCode(error);
  if (DISK_FULL_CODES.has(code)) {
    return new DomainError(
      'unavailable',
      'storage_full',
      'the disk of the database is full and nothing was stored: free some space, then try again',
      { cause: error, retryAfterMs: 10_000 },
    );
  }
  if (READ_ONLY_CODE.test(code)) {
    return new DomainError(
      'unavailable',
      'storage_read_only',
      'the disk of the database cannot be written and nothing was stored: make it writable, then try again',
      { cause: error, retryAfterMs: 10_000 },
    );
  }
  if (isCorruption(error)) {
    return new DomainError('unavailable', 'database_corrupt', `the database is corrupt (${code}): restore a backup`, {
      cause: error,
    });
  }
  if (!(error instanceof TransactionTimeout) && !dialect.isUnavailable(error)) return error;
  return new DomainError(
    'unavailable',
    'database_unavailable',
    `the database is unavailable at the moment (${code || 'no connection'}) and nothing was stored: try again`,
    { cause: error, retryAfterMs: 1000 },
  );
}

/** The engine found data in its files that it did not write. */
export function isCorruption(error: unknown): boolean {
  return CORRUPTION_CODES.has(getCode(error));
}

// Codes of SQLite, and SQLSTATE codes of PostgreSQL: disk full (53100), read-only (25006), corrupt data or index
// (XX001, XX002).
const DISK_FULL_CODES = new Set(['SQLITE_FULL', '53100']);
const READ_ONLY_CODE = /^(SQLITE_READONLY|25006$)/;
// The error of a virtual table (SQLITE_CORRUPT_VTAB) is excluded, because the name index is rebuilt.
const CORRUPTION_CODES = new Set([
  'SQLITE_CORRUPT',
  'SQLITE_CORRUPT_INDEX',
  'SQLITE_CORRUPT_SEQUENCE',
  'SQLITE_NOTADB',
  'SQLITE_IOERR_CORRUPTFS',
  'XX001',
  'XX002',
]);
