import { countCommandUses } from '../../commands';
import { UnitOfWork } from '../../database';
import type { Cursors } from '../../kernel/pages';
import {
  createSensorTemplateRepositories,
  NormalizedKeyService,
  sensorTemplateHandlers,
  SensorTemplateService,
} from '../../sensorTemplates';
import type { Foundation } from '../foundation';

/** Creates the handlers of sensor templates and normalized keys. `countSensorUses`: the sensors that use a template. */
export function createSensorTemplates(
  { database, clock }: Foundation,
  cursors: Cursors,
  countSensorUses: (organizationId: string, templateId: string) => Promise<number>,
) {
  const uow = new UnitOfWork(database, createSensorTemplateRepositories);
  const normalizedKeys = new NormalizedKeyService({ uow, clock, cursors });
  const templates = new SensorTemplateService({ uow, clock, cursors, countCommandUses, countSensorUses });
  return sensorTemplateHandlers(templates, normalizedKeys, cursors);
}
