import { DomainError } from '../kernel/errors';
import { codeOf } from '../kernel/thrown';
import type { Dialect } from './engines/dialect';

export { codeOf, messageOf } from '../kernel/thrown';

/** Runs one write and turns the engine's uniqueness error into ours. Anything else passes through untouched. */
export async function uniqueOr<T>(dialect: Dialect, onDuplicate: () => DomainError, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw dialect.isUniqueViolation(error) ? onDuplicate() : error;
  }
}

/** A transaction took so long that it was rolled back, so that the others can go on. */
export class TransactionTimeout extends Error {
  readonly code = 'TRANSACTION_TIMEOUT';
}

/**
 * `storage_full` and `storage_read_only` for what the disk refused, `database_damaged`, `database_unavailable` for what else may pass by
 * itself (busy, disconnected); any other error as it is.
 */
export function translated(dialect: Dialect, error: unknown): unknown {
  if (error instanceof DomainError) return error;
  const code = codeOf(error);
  if (FULL.has(code)) return new DomainError('unavailable', 'storage_full', 'the disk of the database is full and nothing was stored; free some space, then try again', { cause: error, retryAfterMs: 10_000 });
  if (READ_ONLY.test(code)) return new DomainError('unavailable', 'storage_read_only', 'the disk of the database cannot be written and nothing was stored; make it writable, then try again', { cause: error, retryAfterMs: 10_000 });
  if (isDamage(error)) return new DomainError('unavailable', 'database_damaged', `the database is damaged (${code}); restore a backup`, { cause: error });
  if (!(error instanceof TransactionTimeout) && !dialect.isUnavailable(error)) return error;
  return new DomainError('unavailable', 'database_unavailable', `the database cannot do this just now (${code || 'no connection'}) and nothing was stored; try again`, { cause: error, retryAfterMs: 1000 });
}

/** The engine found something in its files that it never wrote there. */
export function isDamage(error: unknown): boolean {
  return DAMAGE.has(codeOf(error));
}

const FULL = new Set(['SQLITE_FULL', '53100']);
const READ_ONLY = /^(SQLITE_READONLY|25006$)/;
// Of a virtual table's own (SQLITE_CORRUPT_VTAB) is left out: the index of names is made anew.
const DAMAGE = new Set(['SQLITE_CORRUPT', 'SQLITE_CORRUPT_INDEX', 'SQLITE_CORRUPT_SEQUENCE', 'SQLITE_NOTADB', 'SQLITE_IOERR_CORRUPTFS', 'XX001', 'XX002']);
