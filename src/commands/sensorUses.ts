import type { Db } from '../database';
import type { SensorUse } from '../devices';
import { CommandRepository } from './commandRepository';

/** Which commands expect a state of one of these sensors; the hook of the devices room. Runs on the caller's transaction. */
export async function sensorsInUse(db: Db, organizationId: string, sensorIds: readonly string[]): Promise<readonly SensorUse[]> {
  return await new CommandRepository(db).usesOfSensors(organizationId, sensorIds);
}

/** How many commands expect a state of a sensor that has this template, so that its value type must stay; the hook of the sensorTemplates room. Runs on the caller's transaction. */
export async function valueTypeUses(db: Db, organizationId: string, sensorTemplateId: string): Promise<number> {
  return await new CommandRepository(db).countUsesOfTemplate(organizationId, sensorTemplateId);
}
