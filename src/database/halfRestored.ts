import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Knex } from 'knex';
import { DomainError } from '../kernel/errors';
import type { Db } from './db';

/** The folder in a data folder that a restore works in; it is there until all is in its place. */
export const RESTORING_FOLDER = '.restoring';

/**
 * The table that is in a database of PostgreSQL from before the dump is brought in until what it held open is ended. The data folder cannot tell
 * as much: the database may be given to another one, and a pg_restore may go on, and commit, after the restore that started it was killed.
 */
export const RESTORE_MARK = 'plantroom_restore_unfinished';

/** Throws `restore_unfinished` where a restore has begun on this data folder and not come to its end: what is there would send again what was sent before. */
export function refuseHalfRestored(dataDir: string, isPostgres = false): void {
  if (!existsSync(join(dataDir, RESTORING_FOLDER))) return;
  const way = isPostgres ? `drop the database that it was to fill, make it again (createdb), and run \`plantroom restore\` again` : 'run `plantroom restore` again, which begins anew, or move the data folder away to begin empty';
  throw unfinished(`a restore into ${resolve(dataDir)} was interrupted, or is still running; ${way}`);
}

/** Throws `restore_unfinished` for a database of PostgreSQL with RESTORE_MARK in it. `location`: host, port and database, for people. */
export async function refuseMarked(knex: Knex, location: string): Promise<void> {
  if (!(await knex.schema.hasTable(RESTORE_MARK))) return;
  throw unfinished(`a restore into the database ${location} was interrupted, or is still running, and what is in it may have been sent before; drop it, make it again (createdb), and run \`plantroom restore\` again`);
}

/** Puts RESTORE_MARK into a database; false: it was there. Whoever opens it after this is refused. */
export async function markRestoring({ knex }: Db): Promise<boolean> {
  if (await knex.schema.hasTable(RESTORE_MARK)) return false;
  await knex.schema.createTable(RESTORE_MARK, (t) => void t.text('meaning'));
  return true;
}

/** Takes RESTORE_MARK away: servers may work on the database. */
export async function unmarkRestored({ knex }: Db): Promise<void> {
  await knex.schema.dropTable(RESTORE_MARK);
}

function unfinished(message: string): DomainError {
  return new DomainError('conflict', 'restore_unfinished', message);
}
