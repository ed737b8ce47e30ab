import { createAccessRepositories } from '../access';
import type { Config } from '../config';
import { SQLITE_FILE, UnitOfWork, watchDataFolder, type Database } from '../database';
import type { DomainError } from '../kernel/errors';
import { createSensorTemplateRepositories, seedSystemRecords } from '../sensorTemplates';
import type { Disposables } from './disposables';
import type { ExternalDependencies } from './externalDependencies';
import { openConfiguredDatabase } from './openConfiguredDatabase';

/** The open database of a server. */
interface Storage {
  readonly database: Database;
  /** Resolves with the reason when the server lost ownership of the database. */
  readonly ownershipLost: Promise<DomainError>;
}

/**
 * Opens the database, becomes its only server, migrates the schema, deletes the rows of emptied organizations, and
 * creates the system records. `onDataFolderLost` is called when the data folder was moved or deleted.
 */
export async function openStorage(
  config: Config,
  external: ExternalDependencies,
  disposables: Disposables,
  onDataFolderLost?: () => void,
): Promise<Storage> {
  const database = await openConfiguredDatabase(config, external);
  disposables.add(async () => await database.close());
  if (onDataFolderLost) {
    const requiredFiles = config.database.url === '' ? [SQLITE_FILE] : [];
    disposables.add(watchDataFolder(config.data.dir, requiredFiles, onDataFolderLost));
  }
  const { promise: ownershipLost, resolve: reportOwnershipLost } = Promise.withResolvers<DomainError>();
  await database.acquireOwnership(reportOwnershipLost);
  await database.migrate();
  await new UnitOfWork(database, createAccessRepositories).repos.organizations.deleteEmptied();
  await seedSystemRecords(new UnitOfWork(database, createSensorTemplateRepositories), external.clock);
  return { database, ownershipLost };
}
