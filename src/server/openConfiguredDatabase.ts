import type { Config } from '../config';
import { openDatabase, type Database, type OpenDatabaseOptions } from '../database';
import type { ExternalDependencies } from './externalDependencies';

/** Opens the configured database, whatever its schema version. */
export async function openConfiguredDatabase(
  config: Config,
  external: ExternalDependencies & Pick<OpenDatabaseOptions, 'mustExist'>,
): Promise<Database> {
  return await openDatabase({
    url: config.database.url,
    poolSize: config.database.poolSize,
    leaseMs: config.database.leaseMs,
    dataDir: config.data.dir,
    ...external,
  });
}
