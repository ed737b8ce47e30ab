import { dirname } from 'node:path';
import { DomainError } from '../kernel/errors';
import { getCode, formatMessage } from './translate';

/** The facts about a schema that this program does not know. */
interface NewerSchema {
  /** The unknown migrations. */
  readonly unknown: readonly string[];
  /** The version of the program that created the schema; undefined: not recorded. */
  readonly version?: string | undefined;
  /** The newest copy that this program can read, and its original file; undefined: there is none. */
  readonly rollback?: { readonly copy: string; readonly location: string } | undefined;
}

/**
 * Creates the error `schema_version_unsupported`, which names the unknown migrations and both solutions: the newer
 * program, or an older copy of the database.
 */
export function schemaTooNew({ unknown, version, rollback }: NewerSchema): DomainError {
  const fact = `the database was made by a newer version of this program (${version === undefined ? '' : `${version}; `}it has ${unknown.join(', ')})`;
  const rollbackAdvice =
    rollback &&
    `stop the server and go back with this version: plantroom restore ${rollback.copy} --data-dir ${dirname(rollback.location)}; changes since that copy are lost then, and nothing is sent again`;
  return new DomainError(
    'conflict',
    'schema_version_unsupported',
    `${fact}: run that version, or ${rollbackAdvice ?? 'restore the backup that was made before it'}`,
  );
}

/** The facts about failed migrations. */
interface FailedMigration {
  readonly error: unknown;
  /** The failed migration. */
  readonly name: string;
  /** The newest migration that was applied before; undefined: the database was new. */
  readonly schema: string | undefined;
  /** The path of the copy made before. */
  readonly copy: string | undefined;
}

/**
 * Creates the error `migration_failed`, which says whether the database is unchanged, where its copy is, and what to
 * do. If the connection broke during the commit, it is unknown whether all migrations were applied or none.
 */
export function migrationFailed({ error, name, schema, copy }: FailedMigration): DomainError {
  if (error instanceof DomainError && error.isInDoubt) {
    const message = `the connection to the database broke during the commit of ${name} and the migrations before it, so either all of them are applied or none: start again when the database responds`;
    return new DomainError('unavailable', 'migration_failed', message, { cause: error, isInDoubt: true });
  }
  const stateBefore = schema === undefined ? 'the database is still empty' : `the database is unchanged, at ${schema}`;
  const copyNote = copy === undefined ? '' : `; a copy of it is ${copy}`;
  return createMigrationError(
    `the migration ${name} failed (${getReason(error)}) and nothing was changed: ${stateBefore}${copyNote}. ${getAdvice(error)}`,
    error,
  );
}

/** Creates the error `migration_failed` for a dry run, which has changed nothing. */
export function migrationWouldFail(error: unknown, name: string): DomainError {
  return createMigrationError(
    `the migration ${name} would fail (${getReason(error)}); nothing was changed. ${getAdvice(error)}`,
    error,
  );
}

/**
 * Creates the error `migration_failed`. It keeps the kind `unavailable` of its cause, so that callers can retry; any
 * other cause is an internal error.
 */
function createMigrationError(message: string, cause: unknown): DomainError {
  return new DomainError(
    cause instanceof DomainError && cause.kind === 'unavailable' ? 'unavailable' : 'internal',
    'migration_failed',
    message,
    { cause },
  );
}

/** Returns why the migration failed, as a clause. */
function getReason(error: unknown): string {
  if (!(error instanceof DomainError)) return formatMessage(error) || getCode(error) || 'for an unknown reason';
  return error.reason === 'storage_full' ? 'the disk is full' : formatMessage(error.cause) || error.message;
}

/** Returns what to do after a failed migration, as a sentence. */
function getAdvice(error: unknown): string {
  if (!(error instanceof DomainError) || error.kind !== 'unavailable')
    return 'Continue with the previous version of the program, and report this';
  return error.reason === 'storage_full'
    ? 'Free some space and start again; "plantroom migrate --dry-run" shows how much is needed'
    : 'Start again; if it fails once more, continue with the previous version of the program';
}
