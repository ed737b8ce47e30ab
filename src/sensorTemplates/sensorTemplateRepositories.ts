import type { Db } from '../database';
import { NormalizedKeyRepository } from './normalizedKeyRepository';
import { SensorTemplateRepository } from './sensorTemplateRepository';

/** What this room reads and writes. */
export interface SensorTemplateRepositories {
  readonly templates: SensorTemplateRepository;
  readonly keys: NormalizedKeyRepository;
}

/** Binds them to a connection or a transaction; for `new UnitOfWork(database, sensorTemplateRepositories)`. */
export function sensorTemplateRepositories(db: Db): SensorTemplateRepositories {
  return { templates: new SensorTemplateRepository(db), keys: new NormalizedKeyRepository(db) };
}
