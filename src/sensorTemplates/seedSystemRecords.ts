import type { UnitOfWork } from '../database';
import type { Clock } from '../kernel/clock';
import type { SensorTemplateRepositories } from './sensorTemplateRepositories';
import { SYSTEM_KEYS, SYSTEM_TEMPLATES, type SystemKey, type SystemTemplate } from './systemRecords';

/**
 * Updates the system's keys and templates to those of this server version. Writes only records that differ. Returns the
 * number of written records.
 */
export async function seedSystemRecords(uow: UnitOfWork<SensorTemplateRepositories>, clock: Clock): Promise<number> {
  if (countRecords(await findOutdatedRecords(uow.repos)) === 0) return 0;
  return await uow.transaction(async (repos) => {
    // Read again, because another server may have written them in the meantime.
    const { keys, templates } = await findOutdatedRecords(repos);
    if (keys.length > 0) await repos.keys.upsertSystem(keys, clock.now());
    if (templates.length > 0) await repos.templates.upsertSystem(templates, clock.now());
    return countRecords({ keys, templates });
  });
}

interface SystemRecords {
  readonly keys: readonly SystemKey[];
  readonly templates: readonly SystemTemplate[];
}

/** Returns the system records of this server version that are not stored, or stored with other values. */
async function findOutdatedRecords(repos: SensorTemplateRepositories): Promise<SystemRecords> {
  const nameByKeyId = new Map((await repos.keys.listSystem()).map((key) => [key.id, key.name]));
  const descriptionByTemplateId = new Map(
    (await repos.templates.listSystem()).map((template) => [template.id, describeTemplate(template)]),
  );
  return {
    keys: SYSTEM_KEYS.filter(({ id, name }) => nameByKeyId.get(id) !== name),
    templates: SYSTEM_TEMPLATES.filter(
      (template) => descriptionByTemplateId.get(template.id) !== describeTemplate(template),
    ),
  };
}

/** Returns the fields of a template as text for comparison. */
function describeTemplate({
  keyNameId,
  sensorType,
  valueType,
  unitMeasurementId,
  description,
}: SystemTemplate): string {
  return JSON.stringify([keyNameId, sensorType, valueType, unitMeasurementId, description]);
}

function countRecords({ keys, templates }: SystemRecords): number {
  return keys.length + templates.length;
}
