import { resolve } from 'node:path';
import { DomainError } from '../../kernel/errors';

const MAX_LISTED_NAMES = 5;

/** Creates the error for a data folder that is not empty. `found`: the names of its files. */
export function folderNotEmpty(dataDir: string, found: readonly string[]): DomainError {
  const folder = resolve(dataDir);
  const names =
    found.length > MAX_LISTED_NAMES
      ? `${found.slice(0, MAX_LISTED_NAMES).join(', ')} and ${found.length - MAX_LISTED_NAMES} more`
      : found.join(', ');
  return new DomainError(
    'conflict',
    'data_dir_not_empty',
    `a backup can only be restored into an empty data folder, and ${folder} contains ${names}: move it away first (mv ${folder} ${folder}.before), or choose another one with --data-dir`,
  );
}

/** Creates the error for a PostgreSQL database that is not empty. `tables`: its number of tables. */
export function databaseNotEmpty(tables: number): DomainError {
  return new DomainError(
    'conflict',
    'database_not_empty',
    `a backup can only be restored into an empty database, and this one has ${tables} tables: create another one (createdb plantroom_restored) and set PLANTROOM_DATABASE_URL to it`,
  );
}

/** Creates the error for a backup whose engine differs from the configured one. */
export function engineMismatch(engine: string, isPostgresWanted: boolean): DomainError {
  const fix = isPostgresWanted
    ? 'leave PLANTROOM_DATABASE_URL (database.url) empty'
    : 'set PLANTROOM_DATABASE_URL to an empty database';
  return new DomainError(
    'invalid_argument',
    'backup_engine_mismatch',
    `the backup is of a server with ${engine}, and can only be restored to ${engine}: ${fix}`,
  );
}

/** Creates the error for a copy of the database and a data folder without a database that it could replace. */
export function rollbackUnavailable(dataDir: string): DomainError {
  return new DomainError(
    'conflict',
    'rollback_unavailable',
    `a copy of the database alone must be restored into its own data folder, and ${resolve(dataDir)} has no database: set the right one with --data-dir, or restore a complete backup`,
  );
}

/** Creates the error for a SQLite file that cannot be used for a rollback. */
export function copyInvalid(file: string, reason: string): DomainError {
  return new DomainError(
    'invalid_argument',
    'copy_invalid',
    `${file} is not a usable copy of the database: ${reason}. Use one of backups/before-migration-*.db in the data folder, or a backup`,
  );
}

/** Creates the error for a disk that is too full for the restore. `needed` and `free`: bytes. */
export function insufficientSpace(folder: string, needed: number, free: number): DomainError {
  return new DomainError(
    'conflict',
    'insufficient_space',
    `the restore needs ${toMebibytes(needed)} MiB in ${resolve(folder)}, and ${toMebibytes(free)} are free: free some space there, or use another disk (with --dry-run: TMPDIR=/path/to/a/folder)`,
  );
}

/** Creates the error for a backup whose database was already corrupt when it was made. `found`: what is wrong. */
export function backupDatabaseCorrupt(found: string): DomainError {
  return new DomainError(
    'conflict',
    'backup_corrupt',
    `the database in the backup was already corrupt when it was made (${found}), and nothing was restored: use an older backup`,
    { metadata: { member: 'plantroom.db' } },
  );
}

function toMebibytes(bytes: number): number {
  return Math.ceil(bytes / 1024 / 1024);
}
