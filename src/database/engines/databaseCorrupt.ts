import { DomainError } from '../../kernel/errors';

/** Creates the error for a file with data that SQLite did not write. `found`: what is wrong, as a clause. */
export function databaseCorrupt(file: string, found: string, cause?: unknown): DomainError {
  return new DomainError(
    'unavailable',
    'database_corrupt',
    `the database file ${file} is corrupt (${found}): keep it for analysis, and restore a backup`,
    { cause },
  );
}
