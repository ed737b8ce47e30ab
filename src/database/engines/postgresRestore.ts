import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { DomainError } from '../../kernel/errors';
import { messageOf } from '../../kernel/thrown';
import { libpqVariables } from './postgresDump';

const run = promisify(execFile);
const LONGEST_MESSAGE = 500;

/**
 * Brings a dump into an empty database (`postgres://user:password@host:port/database`), all of it or nothing, with the pg_restore on PATH.
 * The password is in no list of processes. Throws `pg_restore_missing`, and `pg_restore_failed`: `isInDoubt` where pg_restore was killed, and its work may yet be committed.
 */
export async function restoreDump(file: string, url: string): Promise<void> {
  const variables = libpqVariables(url);
  const args = ['--exit-on-error', '--single-transaction', '--no-owner', '--no-privileges', '--no-password', `--dbname=${variables['PGDATABASE'] ?? ''}`, file];
  try {
    await run('pg_restore', args, { env: { ...process.env, ...variables } });
  } catch (error) {
    throw failed(error as Ended);
  }
}

/** How a program ended. */
type Ended = NodeJS.ErrnoException & { readonly stderr?: string; readonly signal?: string };

function failed(error: Ended): DomainError {
  if (error.code === 'ENOENT') {
    const message = "a backup of a server with PostgreSQL is restored by its program pg_restore, and there is none on PATH; install PostgreSQL's client programs (Debian: apt install postgresql-client), of the version of the server or newer";
    return new DomainError('conflict', 'pg_restore_missing', message, { cause: error });
  }
  const said = (error.stderr || messageOf(error)).trim().slice(0, LONGEST_MESSAGE);
  return new DomainError('conflict', 'pg_restore_failed', `pg_restore could not restore the dump: ${said}`, { cause: error, isInDoubt: Boolean(error.signal) });
}
