import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { DomainError } from '../../kernel/errors';
import { formatMessage } from '../../kernel/errorUtils';
import { getLibpqVariables } from './postgresDump';

const runProgram = promisify(execFile);
const MAX_MESSAGE_LENGTH = 500;

/**
 * Restores a dump into an empty database (`postgres://user:password@host:port/database`), completely or not at all,
 * with the pg_restore on PATH. The password does not appear in the process list. Throws `pg_restore_missing`, and
 * `pg_restore_failed`: `isInDoubt` if pg_restore was killed and its work may still be committed.
 */
export async function restoreDump(file: string, url: string): Promise<void> {
  const variables = getLibpqVariables(url);
  const args = [
    '--exit-on-error',
    '--single-transaction',
    '--no-owner',
    '--no-privileges',
    '--no-password',
    `--dbname=${variables['PGDATABASE'] ?? ''}`,
    file,
  ];
  try {
    await runProgram('pg_restore', args, { env: { ...process.env, ...variables } });
  } catch (error) {
    throw toRestoreError(error as ExitError);
  }
}

/** How a program exited. */
type ExitError = NodeJS.ErrnoException & { readonly stderr?: string; readonly signal?: string };

/**
 * Creates the error `pg_restore_missing` or `pg_restore_failed`. The work of a pg_restore that was killed by a signal
 * is in doubt: PostgreSQL may still commit it.
 */
function toRestoreError(error: ExitError): DomainError {
  if (error.code === 'ENOENT') {
    const message =
      "restoring a backup of a server with PostgreSQL needs the program pg_restore, and there is none on PATH: install PostgreSQL's client programs (Debian: apt install postgresql-client), of the version of the server or newer";
    return new DomainError('conflict', 'pg_restore_missing', message, { cause: error });
  }
  const output = (error.stderr || formatMessage(error)).trim().slice(0, MAX_MESSAGE_LENGTH);
  return new DomainError('conflict', 'pg_restore_failed', `pg_restore could not restore the dump: ${output}`, {
    cause: error,
    isInDoubt: Boolean(error.signal),
  });
}
