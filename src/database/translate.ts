import { DomainError } from '../kernel/errors';
import type { Dialect } from './engines/dialect';

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

/** The engine's code of an error: `SQLITE_BUSY`, `40001`, `ECONNREFUSED`; empty if it has none. */
export function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : '';
}

/** An error's message; empty if it has none. */
export function messageOf(error: unknown): string {
  const message = (error as { message?: unknown } | null | undefined)?.message;
  return typeof message === 'string' ? message : '';
}

/** `database_unavailable` for what may pass by itself (busy, full, disconnected); any other error as it is. */
export function translated(dialect: Dialect, error: unknown): unknown {
  if (error instanceof DomainError) return error;
  if (!(error instanceof TransactionTimeout) && !dialect.isUnavailable(error)) return error;
  const message = FULL.has(codeOf(error))
    ? 'the disk of the database is full and nothing was stored; free some space, then try again'
    : `the database cannot do this just now (${codeOf(error) || 'no connection'}) and nothing was stored; try again`;
  return new DomainError('unavailable', 'database_unavailable', message, { cause: error, retryAfterMs: 1000 });
}

const FULL = new Set(['SQLITE_FULL', '53100']);
