import type { Knex } from 'knex';
import type { Clock } from '../kernel/clock';
import { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import type { Engine } from './engines/engine';
import type { Migration } from './migrations';

/** What a migration needs beside the engine. */
export interface MigrationContext {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly log: Logger;
  readonly migrations: readonly Migration[];
}

/** What a run of the migrations did. */
export interface MigrationReport {
  /** Names of the migrations that were applied now, oldest first. */
  readonly applied: readonly string[];
  /** Where the database was copied to before; undefined if nothing was to do, it was new, or it is not a file. */
  readonly copy: string | undefined;
}

/** Names of the applied migrations, in their order; empty for a new database. */
export async function appliedMigrations(knex: Knex): Promise<string[]> {
  if (!(await knex.schema.hasTable('schema_migrations'))) return [];
  const rows = (await knex('schema_migrations').select('name').orderBy('name')) as { name: string }[];
  return rows.map((row) => row.name);
}

/** Throws `schema_too_new` if the database was migrated by a program that knows more than this one. */
export function refuseNewer(applied: readonly string[], migrations: readonly Migration[]): void {
  const known = new Set(migrations.map((migration) => migration.name));
  const unknown = applied.filter((name) => !known.has(name));
  if (unknown.length === 0) return;
  throw new DomainError('conflict', 'schema_too_new', `the database was made by a newer version of this program (it has ${unknown.join(', ')}); run that version, or restore the backup that was made before it`);
}

/** Applies what is missing, oldest first, each in a transaction of its own. Throws `schema_too_new`. */
export async function migrateUp(context: MigrationContext): Promise<MigrationReport> {
  const { engine, log, migrations } = context;
  const before = await appliedMigrations(engine.db.knex);
  refuseNewer(before, migrations);
  const missing = migrations.filter(({ name }) => !before.includes(name));
  if (missing.length === 0) return { applied: [], copy: undefined };
  const copy = before.length > 0 ? await engine.copyAside(before.at(-1) as string) : undefined;
  if (copy) log.info({ copy }, 'database.copied_aside');
  await engine.migrationStep(makeTable);
  const applied: string[] = [];
  for (const migration of missing) {
    if (!(await applyOne(context, migration))) continue;
    applied.push(migration.name);
    log.info({ migration: migration.name }, 'database.migrated');
  }
  return { applied, copy };
}

/** Undoes every migration after `name`, newest first; all of them for an empty name. */
export async function migrateDown({ engine, log, migrations }: MigrationContext, name: string): Promise<string[]> {
  const kept = migrations.findIndex((migration) => migration.name === name) + 1;
  if (name !== '' && kept === 0) throw new DomainError('invalid_argument', 'migration_unknown', `there is no migration ${JSON.stringify(name)}; give one of ${migrations.map((m) => m.name).join(', ')}`);
  const applied = await appliedMigrations(engine.db.knex);
  refuseNewer(applied, migrations);
  const undone: string[] = [];
  for (const migration of migrations.slice(kept).toReversed()) {
    if (!applied.includes(migration.name)) continue;
    await engine.migrationStep(async (knex) => {
      await migration.down(knex, engine.dialect);
      await knex('schema_migrations').where({ name: migration.name }).delete();
    });
    undone.push(migration.name);
    log.info({ migration: migration.name }, 'database.migration_undone');
  }
  return undone;
}

async function makeTable(knex: Knex): Promise<void> {
  if (await knex.schema.hasTable('schema_migrations')) return;
  await knex.schema.createTable('schema_migrations', (t) => {
    t.text('name').primary();
    t.bigInteger('applied_at').notNullable();
  });
}

/** False if another process was faster. */
async function applyOne({ engine, clock, migrations }: MigrationContext, migration: Migration): Promise<boolean> {
  return await engine.migrationStep(async (knex) => {
    const applied = await appliedMigrations(knex);
    refuseNewer(applied, migrations);
    if (applied.includes(migration.name)) return false;
    await migration.up(knex, engine.dialect);
    await knex('schema_migrations').insert({ name: migration.name, applied_at: clock.now() });
    return true;
  });
}
