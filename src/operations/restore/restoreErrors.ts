import { resolve } from 'node:path';
import { DomainError } from '../../kernel/errors';

const SHOWN = 5;

/** `found`: what lies in the folder, by name. */
export function folderNotEmpty(dataDir: string, found: readonly string[]): DomainError {
  const folder = resolve(dataDir);
  const names = found.length > SHOWN ? `${found.slice(0, SHOWN).join(', ')} and ${found.length - SHOWN} more` : found.join(', ');
  return new DomainError('conflict', 'data_folder_not_empty', `a backup is restored into an empty data folder, and ${folder} holds ${names}; move it away first (mv ${folder} ${folder}.before), or name another one with --data-dir`);
}

/** `tables`: how many the database has. */
export function databaseNotEmpty(tables: number): DomainError {
  return new DomainError('conflict', 'database_not_empty', `a backup is restored into an empty database, and this one has ${tables} tables; make another one (createdb plantroom_restored) and name it with PLANTROOM_DATABASE_URL`);
}

/** A backup of the one engine, and a configuration of the other. */
export function otherEngine(engine: string, isPostgresWanted: boolean): DomainError {
  const way = isPostgresWanted ? 'leave PLANTROOM_DATABASE_URL (database.url) empty' : 'name an empty database with PLANTROOM_DATABASE_URL';
  return new DomainError('invalid_argument', 'backup_of_other_engine', `the backup is of a server with ${engine}, and is restored to that; ${way}`);
}

/** A copy of the database alone, and a folder without any. */
export function nothingToGoBack(dataDir: string): DomainError {
  return new DomainError('conflict', 'nothing_to_go_back', `a copy of the database alone goes into the data folder that it was made of, and ${resolve(dataDir)} has no database; name the right one with --data-dir, or restore a whole backup`);
}

/** `why`: it is a file of SQLite all the same. */
export function copyNotOne(file: string, why: string): DomainError {
  return new DomainError('invalid_argument', 'copy_not_one', `${file} is no copy to go back to: ${why}; give one of backups/before-migration-*.db in the data folder, or a backup`);
}

/** Bytes. */
export function noSpace(folder: string, needed: number, free: number): DomainError {
  return new DomainError('conflict', 'restore_no_space', `the restore needs ${mib(needed)} MiB in ${resolve(folder)}, and ${mib(free)} are free; make room there, or take another disk (with --dry-run: TMPDIR=/path/to/a/folder)`);
}

/** The database of the backup does not hold together, though its bytes are those that were backed up. */
export function databaseDamaged(found: string): DomainError {
  return new DomainError('conflict', 'backup_damaged', `the database in the backup was damaged when it was made (${found}); nothing was restored, so take an older backup`, { metadata: { member: 'plantroom.db' } });
}

function mib(bytes: number): number {
  return Math.ceil(bytes / 1024 / 1024);
}
