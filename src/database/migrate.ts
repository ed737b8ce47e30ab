import type { Knex } from 'knex';
import type { Clock } from '../kernel/clock';
import { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import { programVersion } from '../kernel/programVersion';
import type { DatabaseSize, Engine, TrialSpace } from './engines/engine';
import { migrationFailed, migrationWouldFail, schemaTooNew } from './migrationErrors';
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

/** What trying the migrations out showed. */
export interface TrialReport extends DatabaseSize {
  /** The newest migration that is applied; empty for a new database. */
  readonly schema: string;
  /** Those that are not yet applied, oldest first. */
  readonly pending: readonly string[];
  /** How long each took, up to where one failed. */
  readonly tried: readonly TriedMigration[];
  /** What the disk must have free; undefined where that is the administrator's business, nothing was to do, or one failed. */
  readonly space: TrialSpace | undefined;
  /** Why one would fail; undefined: none would. */
  readonly failure: DomainError | undefined;
}

/** A migration that could be applied. */
export interface TriedMigration {
  readonly name: string;
  readonly elapsedMs: number;
}

/** The setting that says which version of the program brought the schema to where it is. */
const MIGRATED_BY = 'schema.migrated_by';

/** Names of the applied migrations, in their order; empty for a new database. */
export async function appliedMigrations(knex: Knex): Promise<string[]> {
  if (!(await knex.schema.hasTable('schema_migrations'))) return [];
  const rows = (await knex('schema_migrations').select('name').orderBy('name')) as { name: string }[];
  return rows.map((row) => row.name);
}

/** Throws `schema_too_new` where a migration was applied that this program does not know. */
export function refuseNewer(applied: readonly string[], migrations: readonly Migration[]): void {
  const unknown = unknownOf(applied, migrations);
  if (unknown.length > 0) throw schemaTooNew({ unknown });
}

/** The applied migrations. Throws `schema_too_new` if the database was migrated by a program that knows more than this one. */
export async function knownMigrations(engine: Engine, migrations: readonly Migration[], knex = engine.db.knex): Promise<string[]> {
  const applied = await appliedMigrations(knex);
  const unknown = unknownOf(applied, migrations);
  if (unknown.length === 0) return applied;
  const copy = engine.findCopy(migrations.map(({ name }) => name));
  const { location } = await engine.facts();
  throw schemaTooNew({ unknown, version: await migratedBy(knex), goBack: copy === undefined ? undefined : { copy, location } });
}

function unknownOf(applied: readonly string[], migrations: readonly Migration[]): string[] {
  return applied.filter((name) => migrations.every((migration) => migration.name !== name));
}

/**
 * Applies what is missing, oldest first: all of it, or nothing. `makesCopy`: the database is copied aside before. Throws `schema_too_new`,
 * `no_room_for_copy`, `migration_failed`, `database_unavailable`.
 */
export async function migrateUp(context: MigrationContext, makesCopy: boolean): Promise<MigrationReport> {
  const { engine, log, migrations } = context;
  const before = await knownMigrations(engine, migrations);
  if (migrations.every(({ name }) => before.includes(name))) return { applied: [], copy: undefined };
  const copy = makesCopy && before.length > 0 ? await engine.copyAside(before.at(-1) as string) : undefined;
  if (copy) log.info({ copy }, 'database.copied_aside');
  const run = new MigrationRun(context);
  try {
    await engine.migrate(async (knex, check) => await run.apply(knex, check));
  } catch (error) {
    if (run.at === '') throw error; // it has not come to any
    throw migrationFailed({ error, name: run.at, schema: before.at(-1), copy });
  }
  for (const { name, elapsedMs } of run.done) log.info({ migration: name, elapsed_ms: elapsedMs }, 'database.migrated');
  return { applied: run.done.map(({ name }) => name), copy };
}

/** Applies what is missing where nothing of it stays. Throws `schema_too_new`, and `no_room_for_copy` where it cannot be tried. */
export async function tryMigrations(context: MigrationContext): Promise<TrialReport> {
  const { engine, migrations } = context;
  const before = await knownMigrations(engine, migrations);
  const pending = migrations.map(({ name }) => name).filter((name) => !before.includes(name));
  const facts = { schema: before.at(-1) ?? '', pending, ...(await engine.size()) };
  const run = new MigrationRun(context);
  if (pending.length === 0) return { ...facts, tried: [], space: undefined, failure: undefined };
  try {
    const space = await engine.tryMigration(async (knex, check) => await run.apply(knex, check));
    return { ...facts, tried: run.done, space, failure: undefined };
  } catch (error) {
    if (run.at === '') throw error;
    return { ...facts, tried: run.done, space: undefined, failure: migrationWouldFail(error, run.at) };
  }
}

/** Undoes every migration after `name`, newest first, or nothing of it; all of them for an empty name. */
export async function migrateDown({ engine, log, migrations }: MigrationContext, name: string): Promise<string[]> {
  const kept = migrations.findIndex((migration) => migration.name === name) + 1;
  if (name !== '' && kept === 0) throw new DomainError('invalid_argument', 'migration_unknown', `there is no migration ${JSON.stringify(name)}; give one of ${migrations.map((m) => m.name).join(', ')}`);
  const applied = await knownMigrations(engine, migrations);
  const undone = migrations.slice(kept).toReversed().filter((migration) => applied.includes(migration.name));
  await engine.migrate(async (knex, check) => {
    for (const migration of undone) {
      await migration.down(knex, engine.dialect);
      check();
      await knex('schema_migrations').where({ name: migration.name }).delete();
    }
  });
  for (const migration of undone) log.info({ migration: migration.name }, 'database.migration_undone');
  return undone.map((migration) => migration.name);
}

/** One walk through the migrations that are missing. */
class MigrationRun {
  /** The migration that runs, or ran last; empty: none yet. */
  at = '';
  readonly done: TriedMigration[] = [];

  constructor(private readonly context: MigrationContext) {}

  async apply(knex: Knex, check: () => void): Promise<void> {
    const { engine, clock, migrations } = this.context;
    await makeTable(knex);
    const applied = await knownMigrations(engine, migrations, knex); // another process may have been faster
    for (const migration of migrations.filter(({ name }) => !applied.includes(name))) {
      this.at = migration.name;
      const began = clock.monotonic();
      await migration.up(knex, engine.dialect);
      check();
      await knex('schema_migrations').insert({ name: migration.name, applied_at: clock.now() });
      this.done.push({ name: migration.name, elapsedMs: Math.round(clock.monotonic() - began) });
    }
    if (this.at !== '') await writeDownProgram(knex);
  }
}

async function makeTable(knex: Knex): Promise<void> {
  if (await knex.schema.hasTable('schema_migrations')) return;
  await knex.schema.createTable('schema_migrations', (t) => {
    t.text('name').primary();
    t.bigInteger('applied_at').notNullable();
  });
}

async function writeDownProgram(knex: Knex): Promise<void> {
  const { version, commit } = programVersion();
  const value = commit === 'unknown' ? version : `${version}, commit ${commit}`;
  if (await knex.schema.hasTable('settings')) await knex('settings').insert({ name: MIGRATED_BY, value }).onConflict('name').merge();
}

async function migratedBy(knex: Knex): Promise<string | undefined> {
  if (!(await knex.schema.hasTable('settings'))) return undefined;
  return (await knex('settings').where({ name: MIGRATED_BY }).first<{ value: string } | undefined>('value'))?.value;
}
