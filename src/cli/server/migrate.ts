import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import type { Config } from '../../config';
import { systemClock } from '../../kernel/clock';
import type * as databaseModule from '../../database';
import type { TrialReport } from '../../database';
import { Reported, UsageError } from '../exit';
import { note, showRecord } from '../output';
import { commandLog } from '../log';
import { configOf, DATA_SETTINGS, withConfig, withJson, type ConfigFlags } from '../options';

interface MigrateFlags extends ConfigFlags {
  readonly dryRun?: boolean;
  /** False with --no-copy. */
  readonly copy: boolean;
}

const lazyDatabase = (): typeof databaseModule => require('../../database');

const MORE = `
A migration is applied whole or not at all. SQLite is copied into backups in the data folder before; of PostgreSQL make a backup yourself.

--dry-run does all of it and keeps nothing: with SQLite on a copy in the data folder, beside a running server or without one; with
PostgreSQL in a transaction that is rolled back, for which a running server has to wait. Exit code 1 if it would fail.

Examples:
  plantroom migrate --dry-run
  plantroom migrate`;

/** Adds `plantroom migrate`. */
export function addMigrate(program: Command): void {
  withConfig(withJson(program.command('migrate').description("bring the database to this program's schema; serve does it too")), DATA_SETTINGS)
    .option('--dry-run', 'only try it out, and say how long it takes and how much room')
    .option('--no-copy', 'with SQLite: make no copy before')
    .addHelpText('after', MORE)
    .action((flags: MigrateFlags) => (flags.dryRun ? runTrial(flags) : runMigrate(flags)));
}

/** Migrates while nobody else works on the database of the data folder. */
async function runMigrate(flags: MigrateFlags): Promise<void> {
  const { config } = configOf(flags);
  const { lockDataFolder, openDatabase } = lazyDatabase();
  const lock = await lockDataFolder(config.data.dir);
  try {
    const database = await openDatabase(optionsOf(config));
    try {
      if (config.database.url !== '') await database.own(() => {}); // a server with another data folder may work on it
      const { applied, copy } = await database.migrate(flags.copy);
      const { schema, engine, location } = await database.describe();
      showRecord({ schema, applied, copy: copy ?? null, engine, location }, flags);
    } finally {
      await database.close();
    }
  } finally {
    lock.release();
  }
}

/** Works beside a running server too, and so takes no lock. */
async function runTrial(flags: MigrateFlags): Promise<void> {
  const { config } = configOf(flags);
  const isFile = config.database.url === '';
  if (isFile && !existsSync(join(config.data.dir, 'plantroom.db'))) throw new UsageError(`there is no database in ${config.data.dir} to try it on; --data-dir says where it is`);
  const database = await lazyDatabase().openDatabase({ ...optionsOf(config), readOnly: isFile });
  try {
    const report = await database.tryMigrations();
    showRecord(shown(report), flags);
    if (report.failure) note(`plantroom: ${report.failure.message}`);
    if (report.failure || isShort(report)) throw new Reported(1);
  } finally {
    await database.close();
  }
}

function optionsOf({ data, database, log }: Config): databaseModule.OpenDatabaseOptions {
  return { url: database.url, dataDir: data.dir, poolSize: database.pool, log: commandLog(log.level), clock: systemClock };
}

function shown(report: TrialReport): Record<string, unknown> {
  const { schema, pending, tried, rows, bytes, space, failure } = report;
  return {
    schema,
    pending,
    elapsedMs: Object.fromEntries(tried.map(({ name, elapsedMs }) => [name, elapsedMs])),
    rows,
    bytes,
    bytesNeeded: space?.neededBytes ?? null,
    bytesFree: space?.freeBytes ?? null,
    succeeds: !failure && !isShort(report),
  };
}

function isShort({ space }: TrialReport): boolean {
  return space !== undefined && space.freeBytes < space.neededBytes;
}
