import type { Knex } from 'knex';
import type { Clock } from '../kernel/clock';
import { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import { getProgramVersion } from '../kernel/programVersion';
import type { DatabaseSize, Engine, MigrationSpace } from './engines/engine';
import { migrationFailed, migrationWouldFail, schemaTooNew } from './migrationErrors';
import type { Migration } from './migrations';

/** The dependencies of the migrations, besides the engine. */
export interface MigrationContext {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly log: Logger;
  readonly migrations: readonly Migration[];
}

/** The result of running the migrations. */
export interface MigrationReport {
  /** Names of the migrations that were just applied, oldest first. */
  readonly applied: readonly string[];
  /**
   * The path of the copy made before; undefined if there was nothing to do, the database was new, or it is not a file.
   */
  readonly copy: string | undefined;
}

/** The result of a dry run of the migrations. */
export interface MigrationDryRunReport extends DatabaseSize {
  /** The newest applied migration; empty for a new database. */
  readonly schema: string;
  /** The migrations that are not applied yet, oldest first. */
  readonly pending: readonly string[];
  /** The duration of each, up to the first failure. */
  readonly tried: readonly TriedMigration[];
  /**
   * The disk space that must be free; undefined if the administrator is responsible for it, nothing was to do, or one
   * failed.
   */
  readonly space: MigrationSpace | undefined;
  /** Why a migration would fail; undefined: none would. */
  readonly failure: DomainError | undefined;
}

/** An applicable migration. */
interface TriedMigration {
  readonly name: string;
  readonly elapsedMs: number;
}

/** The setting with the version of the program that migrated to the current schema. */
const MIGRATED_BY_SETTING = 'schema.migrated_by';

/** Names of the applied migrations, in order; empty for a new database. */
export async function listAppliedMigrations(knex: Knex): Promise<string[]> {
  if (!(await knex.schema.hasTable('schema_migrations'))) return [];
  const rows = (await knex('schema_migrations').select('name').orderBy('name')) as { name: string }[];
  return rows.map((row) => row.name);
}

/** Throws `schema_version_unsupported` if a migration was applied that this program does not know. */
export function assertSchemaSupported(applied: readonly string[], migrations: readonly Migration[]): void {
  const unknown = findUnknownMigrations(applied, migrations);
  if (unknown.length > 0) throw schemaTooNew({ unknown });
}

/**
 * Returns the names of the applied migrations, oldest first. Throws `schema_version_unsupported` if the database was
 * migrated by a newer program: its message names the newest copy of the database that this program can read.
 */
export async function loadKnownMigrations(
  engine: Engine,
  migrations: readonly Migration[],
  knex = engine.db.knex,
): Promise<string[]> {
  const applied = await listAppliedMigrations(knex);
  const unknown = findUnknownMigrations(applied, migrations);
  if (unknown.length === 0) return applied;
  const copy = engine.findNewestCopy(migrations.map(({ name }) => name));
  const { location } = await engine.describe();
  throw schemaTooNew({
    unknown,
    version: await readMigratedBy(knex),
    rollback: copy === undefined ? undefined : { copy, location },
  });
}

/** Returns the applied migrations that this program does not have: a newer program applied them. */
function findUnknownMigrations(applied: readonly string[], migrations: readonly Migration[]): string[] {
  return applied.filter((name) => migrations.every((migration) => migration.name !== name));
}

/**
 * Applies the missing migrations, oldest first, completely or not at all. `shouldCopy`: copies the database before.
 * Throws `schema_version_unsupported`, `insufficient_space`, `migration_failed`, `database_unavailable`.
 */
export async function migrateUp(context: MigrationContext, shouldCopy: boolean): Promise<MigrationReport> {
  const { engine, log, migrations } = context;
  const appliedBefore = await loadKnownMigrations(engine, migrations);
  if (migrations.every(({ name }) => appliedBefore.includes(name))) return { applied: [], copy: undefined };
  const copy =
    shouldCopy && appliedBefore.length > 0
      ? await engine.copyBeforeMigration(appliedBefore.at(-1) as string)
      : undefined;
  if (copy) log.info({ copy }, 'database.backup_created');
  const run = new MigrationRun(context);
  try {
    await engine.migrate(async (knex, checkForeignKeys) => await run.apply(knex, checkForeignKeys));
  } catch (error) {
    if (run.currentMigration === '') throw error; // the error occurred before the first migration
    throw migrationFailed({ error, name: run.currentMigration, schema: appliedBefore.at(-1), copy });
  }
  for (const { name, elapsedMs } of run.appliedMigrations)
    log.info({ migration: name, elapsed_ms: elapsedMs }, 'database.migrated');
  return { applied: run.appliedMigrations.map(({ name }) => name), copy };
}

/**
 * Applies the missing migrations and rolls them back, to report their durations, the space that they need, and the
 * first failure. Throws `schema_version_unsupported`, and `insufficient_space` if the dry run itself is not possible.
 */
export async function dryRunMigrations(context: MigrationContext): Promise<MigrationDryRunReport> {
  const { engine, migrations } = context;
  const appliedBefore = await loadKnownMigrations(engine, migrations);
  const pending = migrations.map(({ name }) => name).filter((name) => !appliedBefore.includes(name));
  const baseReport = { schema: appliedBefore.at(-1) ?? '', pending, ...(await engine.measureSize()) };
  const run = new MigrationRun(context);
  if (pending.length === 0) return { ...baseReport, tried: [], space: undefined, failure: undefined };
  try {
    const space = await engine.dryRunMigration(
      async (knex, checkForeignKeys) => await run.apply(knex, checkForeignKeys),
    );
    return { ...baseReport, tried: run.appliedMigrations, space, failure: undefined };
  } catch (error) {
    if (run.currentMigration === '') throw error;
    return {
      ...baseReport,
      tried: run.appliedMigrations,
      space: undefined,
      failure: migrationWouldFail(error, run.currentMigration),
    };
  }
}

/** Reverts every migration after `name`, newest first, completely or not at all; all of them for an empty name. */
export async function migrateDown({ engine, log, migrations }: MigrationContext, name: string): Promise<string[]> {
  // The index after `name`; 0 (all migrations) if it is empty or unknown.
  const firstRevertedIndex = migrations.findIndex((migration) => migration.name === name) + 1;
  if (name !== '' && firstRevertedIndex === 0) {
    throw new DomainError(
      'not_found',
      'migration_not_found',
      `unknown migration ${JSON.stringify(name)}: use one of ${migrations.map((known) => known.name).join(', ')}`,
    );
  }
  const applied = await loadKnownMigrations(engine, migrations);
  const reverted = migrations
    .slice(firstRevertedIndex)
    .toReversed()
    .filter((migration) => applied.includes(migration.name));
  await engine.migrate(async (knex, checkForeignKeys) => {
    for (const migration of reverted) {
      await migration.down(knex, engine.dialect);
      checkForeignKeys();
      await knex('schema_migrations').where({ name: migration.name }).delete();
    }
  });
  for (const migration of reverted) log.info({ migration: migration.name }, 'database.migration_undone');
  return reverted.map((migration) => migration.name);
}

/** One pass through the missing migrations, which records the current one for the error message. */
class MigrationRun {
  /** The migration that runs, or ran last; empty: none yet. */
  currentMigration = '';
  readonly appliedMigrations: TriedMigration[] = [];

  constructor(private readonly context: MigrationContext) {}

  /**
   * Applies every missing migration inside the transaction of `knex`. `checkForeignKeys` throws if a migration left a
   * row with a missing reference. Which migrations are missing is read again here, because another process may have
   * applied some in the meantime.
   */
  async apply(knex: Knex, checkForeignKeys: () => void): Promise<void> {
    const { engine, clock, migrations } = this.context;
    await createMigrationsTable(knex);
    const applied = await loadKnownMigrations(engine, migrations, knex);
    for (const migration of migrations.filter(({ name }) => !applied.includes(name))) {
      this.currentMigration = migration.name;
      const startedAt = clock.monotonic();
      await migration.up(knex, engine.dialect);
      checkForeignKeys();
      await knex('schema_migrations').insert({ name: migration.name, applied_at: clock.now() });
      this.appliedMigrations.push({ name: migration.name, elapsedMs: Math.round(clock.monotonic() - startedAt) });
    }
    if (this.currentMigration !== '') await recordProgramVersion(knex);
  }
}

/** Creates the table of the applied migrations if it is missing. */
async function createMigrationsTable(knex: Knex): Promise<void> {
  if (await knex.schema.hasTable('schema_migrations')) return;
  await knex.schema.createTable('schema_migrations', (table) => {
    table.text('name').primary();
    table.bigInteger('applied_at').notNullable();
  });
}

/** Stores which version of the program migrated the database, for the message of an older program. */
async function recordProgramVersion(knex: Knex): Promise<void> {
  const { version, commit } = getProgramVersion();
  const value = commit === 'unknown' ? version : `${version}, commit ${commit}`;
  if (await knex.schema.hasTable('settings'))
    await knex('settings').insert({ name: MIGRATED_BY_SETTING, value }).onConflict('name').merge();
}

/** Returns the version that `recordProgramVersion` stored; undefined: a version before that setting existed. */
async function readMigratedBy(knex: Knex): Promise<string | undefined> {
  if (!(await knex.schema.hasTable('settings'))) return undefined;
  return (await knex('settings').where({ name: MIGRATED_BY_SETTING }).first<{ value: string } | undefined>('value'))
    ?.value;
}
