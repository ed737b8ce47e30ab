import { dirname } from 'node:path';
import { DomainError } from '../kernel/errors';
import { codeOf, messageOf } from './translate';

/** What is known of a schema that this program does not know. */
export interface NewerSchema {
  /** The migrations that it does not know. */
  readonly unknown: readonly string[];
  /** Which version of the program made it; undefined: nobody wrote it down. */
  readonly version?: string | undefined;
  /** The newest copy that this program can read, and the file that it was made of; undefined: there is none. */
  readonly goBack?: { readonly copy: string; readonly location: string } | undefined;
}

/** `schema_too_new`: what is there, and both ways out. */
export function schemaTooNew({ unknown, version, goBack }: NewerSchema): DomainError {
  const made = `the database was made by a newer version of this program (${version === undefined ? '' : `${version}; `}it has ${unknown.join(', ')})`;
  const back = goBack && `stop the server and go back with this version: plantroom restore ${goBack.copy} --data-dir ${dirname(goBack.location)}; what was stored since that copy is lost then, and nothing is sent again`;
  return new DomainError('conflict', 'schema_too_new', `${made}; run that version, or ${back ?? 'restore the backup that was made before it'}`);
}

/** What is known of migrations that failed. */
export interface FailedMigration {
  readonly error: unknown;
  /** The one that failed. */
  readonly name: string;
  /** The newest migration that was applied before; undefined: the database was new. */
  readonly schema: string | undefined;
  /** Where the database was copied to before. */
  readonly copy: string | undefined;
}

/** `migration_failed`, which says what the database is like now and what to do. */
export function migrationFailed({ error, name, schema, copy }: FailedMigration): DomainError {
  if (error instanceof DomainError && error.isInDoubt) {
    const message = `the connection to the database broke while ${name} and what came with it was being committed, so either all of it is applied or nothing; start again when the database answers`;
    return new DomainError('unavailable', 'migration_failed', message, { cause: error, isInDoubt: true });
  }
  const before = schema === undefined ? 'the database is as empty as before' : `the database is as it was before, at ${schema}`;
  const copied = copy === undefined ? '' : `; a copy of it is ${copy}`;
  return failed(`the migration ${name} failed (${reasonOf(error)}) and nothing was changed: ${before}${copied}. ${adviceOn(error)}`, error);
}

/** `migration_failed` where it was only tried out. */
export function migrationWouldFail(error: unknown, name: string): DomainError {
  return failed(`the migration ${name} would fail (${reasonOf(error)}); nothing was changed. ${adviceOn(error)}`, error);
}

function failed(message: string, cause: unknown): DomainError {
  return new DomainError(cause instanceof DomainError && cause.kind === 'unavailable' ? 'unavailable' : 'internal', 'migration_failed', message, { cause });
}

function reasonOf(error: unknown): string {
  if (!(error instanceof DomainError)) return messageOf(error) || codeOf(error) || 'for no reason that is known';
  return error.reason === 'storage_full' ? 'the disk is full' : messageOf(error.cause) || error.message;
}

function adviceOn(error: unknown): string {
  if (!(error instanceof DomainError) || error.kind !== 'unavailable') return 'Go on with the version of the program that ran before, and report this';
  return error.reason === 'storage_full' ? 'Make room and start again; "plantroom migrate --dry-run" says how much it takes' : 'Start again; should it fail once more, go on with the version of the program that ran before';
}
