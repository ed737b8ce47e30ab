import type { Dialect } from '../database';
import type { DomainError } from '../kernel/errors';

/** Runs one write and turns a refused reference into ours: what it points to was deleted since it was looked up. */
export async function foreignKeyOr<T>(dialect: Dialect, onMissing: () => DomainError, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw dialect.isForeignKeyViolation(error) ? onMissing() : error;
  }
}
