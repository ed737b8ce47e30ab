import type { UnitOfWork } from '../database';
import type { Clock } from '../kernel/clock';
import type { SensorTemplateRepositories } from './sensorTemplateRepositories';
import { SYSTEM_KEYS, SYSTEM_TEMPLATES, type SystemKey, type SystemTemplate } from './systemRecords';

/** Brings the system's keys and templates to those of this server; writes only what differs. Returns how many records were written. */
export async function seedSystemRecords(uow: UnitOfWork<SensorTemplateRepositories>, clock: Clock): Promise<number> {
  if (count(await changed(uow.repos)) === 0) return 0;
  return await uow.transaction(async (repos) => {
    const { keys, templates } = await changed(repos);
    if (keys.length > 0) await repos.keys.putSystem(keys, clock.now());
    if (templates.length > 0) await repos.templates.putSystem(templates, clock.now());
    return count({ keys, templates });
  });
}

interface Records {
  readonly keys: readonly SystemKey[];
  readonly templates: readonly SystemTemplate[];
}

async function changed(repos: SensorTemplateRepositories): Promise<Records> {
  const keys = new Map((await repos.keys.listSystem()).map((key) => [key.id, key.name]));
  const templates = new Map((await repos.templates.listSystem()).map((template) => [template.id, sayingOf(template)]));
  return {
    keys: SYSTEM_KEYS.filter(({ id, name }) => keys.get(id) !== name),
    templates: SYSTEM_TEMPLATES.filter((template) => templates.get(template.id) !== sayingOf(template)),
  };
}

function sayingOf({ keyNameId, sensorType, valueType, unitMeasurementId, description }: SystemTemplate): string {
  return JSON.stringify([keyNameId, sensorType, valueType, unitMeasurementId, description]);
}

function count({ keys, templates }: Records): number {
  return keys.length + templates.length;
}
