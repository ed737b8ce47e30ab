import type { Db } from '../database';
import type { SensorUse } from '../devices';
import { CommandRepository } from './commandRepository';

/**
 * Returns the commands that expect a state of one of these sensors. This is a hook of the devices module and runs on
 * the caller's transaction.
 */
export async function findSensorUses(
  db: Db,
  organizationId: string,
  sensorIds: readonly string[],
): Promise<readonly SensorUse[]> {
  return await new CommandRepository(db).findSensorUses(organizationId, sensorIds);
}

/**
 * Counts the commands that expect a state of a sensor of this template, whose value type must not change. This is a
 * hook of the sensorTemplates module and runs on the caller's transaction.
 */
export async function countCommandUses(db: Db, organizationId: string, sensorTemplateId: string): Promise<number> {
  return await new CommandRepository(db).countTemplateUses(organizationId, sensorTemplateId);
}
