import type { Database } from '../database';
import { DomainError } from '../kernel/errors';

const MAX_ATTEMPTS = 5;

/**
 * Runs work that reads stored data and then writes. Repeats it, at most five attempts in total, if a unique index or a
 * foreign key rejects the write because another writer was faster, or if the database stayed busy for too long. Throws
 * the error of the last attempt.
 */
export async function retryOnConflict<T>({ dialect }: Database, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      const isRetryable = dialect.isUniqueViolation(error) || dialect.isForeignKeyViolation(error) || isBusy(error);
      if (attempt === MAX_ATTEMPTS || !isRetryable) throw error;
    }
  }
}

/** Whether the database was busy for too long: nothing was stored, and a retry may succeed. */
function isBusy(error: unknown): boolean {
  return error instanceof DomainError && error.reason === 'database_unavailable' && !error.isInDoubt;
}
