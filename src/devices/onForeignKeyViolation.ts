import type { Dialect } from '../database';
import type { DomainError } from '../kernel/errors';

/**
 * Runs one write and converts a foreign key violation to a domain error: the referenced record was deleted after it was
 * checked.
 */
export async function onForeignKeyViolation<T>(
  dialect: Dialect,
  createError: () => DomainError,
  write: () => Promise<T>,
): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw dialect.isForeignKeyViolation(error) ? createError() : error;
  }
}
