import type { Db } from '../database';
import { NormalizedKeyRepository } from './normalizedKeyRepository';
import { SensorTemplateRepository } from './sensorTemplateRepository';

/** The repositories that this module reads and writes. */
export interface SensorTemplateRepositories {
  readonly templates: SensorTemplateRepository;
  readonly keys: NormalizedKeyRepository;
}

/**
 * Binds the repositories to a connection or a transaction; for `new UnitOfWork(database,
 * createSensorTemplateRepositories)`.
 */
export function createSensorTemplateRepositories(db: Db): SensorTemplateRepositories {
  return { templates: new SensorTemplateRepository(db), keys: new NormalizedKeyRepository(db) };
}
