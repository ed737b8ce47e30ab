import type { Command } from 'commander';
import { systemClock } from '../../kernel/clock';
import type * as databaseModule from '../../database';
import { showRecord } from '../output';
import { commandLog } from '../log';
import { configOf, DATA_SETTINGS, withConfig, withJson, type ConfigFlags } from '../options';

const lazyDatabase = (): typeof databaseModule => require('../../database');

/** Adds `plantroom migrate`. */
export function addMigrate(program: Command): void {
  withConfig(withJson(program.command('migrate').description("bring the database to this program's schema; serve does it too")), DATA_SETTINGS).action((flags: ConfigFlags) => runMigrate(flags));
}

/** Migrates while nobody else works on the database of the data folder. */
async function runMigrate(flags: ConfigFlags): Promise<void> {
  const { config } = configOf(flags);
  const log = commandLog(config.log.level);
  const { lockDataFolder, openDatabase } = lazyDatabase();
  const lock = await lockDataFolder(config.data.dir);
  try {
    const database = await openDatabase({ url: config.database.url, dataDir: config.data.dir, poolSize: config.database.pool, log, clock: systemClock });
    try {
      const { applied, copy } = await database.migrate();
      const { schema, engine, location } = await database.describe();
      showRecord({ schema, applied, copy: copy ?? null, engine, location }, flags);
    } finally {
      await database.close();
    }
  } finally {
    lock.release();
  }
}
