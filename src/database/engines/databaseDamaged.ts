import { DomainError } from '../../kernel/errors';

/** In the file stands what SQLite never wrote there. */
export function databaseDamaged(file: string, found: string, cause?: unknown): DomainError {
  return new DomainError('unavailable', 'database_damaged', `the database file ${file} is damaged (${found}); keep it for whoever looks into it, and restore a backup`, { cause });
}
