import type { Database } from '../database';
import { DomainError } from '../kernel/errors';

const TRIES = 5;

/**
 * Does work that looks at what is stored and then writes, anew where somebody was faster: a unique index or a foreign key refused it. Also
 * where a server that writes without a break kept it waiting for too long. Throws what it threw the fifth time.
 */
export async function raced<T>({ dialect }: Database, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      const isLost = dialect.isUniqueViolation(error) || dialect.isForeignKeyViolation(error) || isBusy(error);
      if (attempt === TRIES || !isLost) throw error;
    }
  }
}

/** Nothing was stored, and it may pass. */
function isBusy(error: unknown): boolean {
  return error instanceof DomainError && error.reason === 'database_unavailable' && !error.isInDoubt;
}
