import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Knex } from 'knex';
import { DomainError } from '../kernel/errors';
import type { Db } from './db';

/** The working folder of a restore in a data folder; it exists until everything is in its place. */
export const RESTORING_FOLDER = '.restoring';

/**
 * A table that marks a PostgreSQL database from before the dump is restored until the executions that were open in it
 * are closed. The data folder is not sufficient: the database may be used by another one, and pg_restore may continue,
 * and commit, after its restore was killed.
 */
export const RESTORE_MARK = 'plantroom_restore_unfinished';

/**
 * Throws `restore_unfinished` if a restore into this data folder has started and not finished: its content would send
 * again what was already sent.
 */
export function assertRestoreComplete(dataDir: string, isPostgres = false): void {
  if (!existsSync(join(dataDir, RESTORING_FOLDER))) return;
  const solution = isPostgres
    ? `drop the database to restore into, create it again (createdb), and run \`plantroom restore\` again`
    : 'run `plantroom restore` again, which starts over, or move the data folder away to start with an empty one';
  throw restoreUnfinished(`a restore into ${resolve(dataDir)} was interrupted, or is still running: ${solution}`);
}

/**
 * Throws `restore_unfinished` for a PostgreSQL database with RESTORE_MARK in it. `location`: host, port and database,
 * for people.
 */
export async function assertNoRestoreMark(knex: Knex, location: string): Promise<void> {
  if (!(await knex.schema.hasTable(RESTORE_MARK))) return;
  throw restoreUnfinished(
    `a restore into the database ${location} was interrupted, or is still running, and its executions may have been sent before: drop it, create it again (createdb), and run \`plantroom restore\` again`,
  );
}

/** Puts RESTORE_MARK into a database; false: it already existed. From then on, opening the database fails. */
export async function addRestoreMark({ knex }: Db): Promise<boolean> {
  if (await knex.schema.hasTable(RESTORE_MARK)) return false;
  await knex.schema.createTable(RESTORE_MARK, (table) => void table.text('meaning'));
  return true;
}

/** Removes RESTORE_MARK: servers may use the database. */
export async function removeRestoreMark({ knex }: Db): Promise<void> {
  await knex.schema.dropTable(RESTORE_MARK);
}

function restoreUnfinished(message: string): DomainError {
  return new DomainError('conflict', 'restore_unfinished', message);
}
