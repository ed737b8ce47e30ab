import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import type { Config } from '../../config';
import { systemClock } from '../../kernel/clock';
import type * as databaseModule from '../../database';
import type { MigrationDryRunReport } from '../../database';
import { AlreadyReportedError, UsageError } from '../exit';
import { note, showRecord } from '../output';
import { createCommandLog } from '../log';
import { getConfig, DATA_SETTINGS, withConfig, withJson, type ConfigFlags } from '../options';

interface MigrateFlags extends ConfigFlags {
  readonly dryRun?: boolean;
  /** False with --no-backup. */
  readonly backup: boolean;
}

const loadDatabase = (): typeof databaseModule => require('../../database');

const MORE = `
A migration is applied completely or not at all. A SQLite database is first copied to the folder backups in the data folder; back up a
PostgreSQL database yourself.

--dry-run runs all migrations and keeps nothing. With SQLite it uses a copy in the data folder; the server can keep running. With
PostgreSQL it uses a transaction that is rolled back; a running server has to wait for it. The exit code is 1 if the migration would fail.

Examples:
  plantroom migrate --dry-run
  plantroom migrate`;

/** Adds `plantroom migrate`. */
export function addMigrate(program: Command): void {
  withConfig(
    withJson(
      program.command('migrate').description('Upgrade the database schema (`serve` also does this automatically)'),
    ),
    DATA_SETTINGS,
  )
    .option('--dry-run', 'only test the migration and show the time and disk space that it needs')
    .option('--no-backup', 'with SQLite: do not copy the database first')
    .addHelpText('after', MORE)
    .action((flags: MigrateFlags) => (flags.dryRun ? runDryRun(flags) : runMigrate(flags)));
}

/** Migrates the database. Throws if a server or another command uses the data folder. */
async function runMigrate(flags: MigrateFlags): Promise<void> {
  const { config } = getConfig(flags);
  const { lockDataFolder, openDatabase } = loadDatabase();
  const lock = await lockDataFolder(config.data.dir);
  try {
    const database = await openDatabase(getOptions(config));
    try {
      // A server with another data folder may use this database.
      if (config.database.url !== '') await database.acquireOwnership(() => {});
      const { applied, copy } = await database.migrate(flags.backup);
      const { schema, engine, location } = await database.describe();
      showRecord({ schema, applied, copy: copy ?? null, engine, location }, flags);
    } finally {
      await database.close();
    }
  } finally {
    lock.release();
  }
}

/**
 * Runs the migrations without keeping the result: on a copy of an SQLite database, and in a transaction of PostgreSQL
 * that is rolled back. Takes no lock: a server can be running. The printed report says if the disk has too little
 * space.
 */
async function runDryRun(flags: MigrateFlags): Promise<void> {
  const { config } = getConfig(flags);
  const isSqlite = config.database.url === '';
  if (isSqlite && !existsSync(join(config.data.dir, 'plantroom.db')))
    throw new UsageError(
      `there is no database in ${config.data.dir} to test the migration with; set its folder with --data-dir`,
    );
  const database = await loadDatabase().openDatabase({ ...getOptions(config), readOnly: isSqlite });
  try {
    const report = await database.dryRunMigrations();
    showRecord(toReportRecord(report), flags);
    if (report.failure) note(`plantroom: ${report.failure.message}`);
    if (report.failure || lacksSpace(report)) throw new AlreadyReportedError(1);
  } finally {
    await database.close();
  }
}

function getOptions({ data, database, log }: Config): databaseModule.OpenDatabaseOptions {
  return {
    url: database.url,
    dataDir: data.dir,
    poolSize: database.poolSize,
    leaseMs: database.leaseMs,
    log: createCommandLog(log.level),
    clock: systemClock,
  };
}

/** Converts the report to the printed record. */
function toReportRecord(report: MigrationDryRunReport): Record<string, unknown> {
  const { schema, pending, tried, rows, bytes, space, failure } = report;
  return {
    schema,
    pending,
    elapsedMs: Object.fromEntries(tried.map(({ name, elapsedMs }) => [name, elapsedMs])),
    rows,
    bytes,
    bytesNeeded: space?.neededBytes ?? null,
    bytesFree: space?.freeBytes ?? null,
    succeeds: !failure && !lacksSpace(report),
  };
}

/** Whether the disk has less free space than the migration needs; false if that is unknown. */
function lacksSpace({ space }: MigrationDryRunReport): boolean {
  return space !== undefined && space.freeBytes < space.neededBytes;
}
