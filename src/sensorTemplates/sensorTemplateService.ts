import type { Db, UnitOfWork } from '../database';
import type { Clock } from '../kernel/clock';
import { DomainError, notFound, throwIfAny, type Violation } from '../kernel/errors';
import { checkEtag } from '../kernel/etags';
import { isId, newId } from '../kernel/ids';
import type { Cursors } from '../kernel/pages';
import { listPage, type ListPage } from './listPage';
import type { NormalizedKey, SensorTemplate, ValueType } from './sensorTemplate';
import type { SensorTemplateRepositories } from './sensorTemplateRepositories';
import type { TemplateFields } from './sensorTemplateRepository';
import { systemRecord } from './systemRecord';
import { unitViolations } from './units';

/** What this service stands on. The hooks ask rooms above this one; app.ts hands them down. */
export interface SensorTemplateServiceOptions {
  readonly uow: UnitOfWork<SensorTemplateRepositories>;
  readonly clock: Clock;
  readonly cursors: Cursors;
  /** How many sensors use a template. */
  readonly sensorUses: (organizationId: string, templateId: string) => Promise<number>;
  /** How many commands expect a state of a sensor of this template, inside the transaction that changes the type of its values. */
  readonly valueTypeUses: (db: Db, organizationId: string, templateId: string) => Promise<number>;
}

/** A template to create. */
export interface NewTemplate extends TemplateFields {
  readonly sensorType: string;
  readonly valueType: ValueType;
}

/** What sensors measure. */
export class SensorTemplateService {
  constructor(private readonly options: SensorTemplateServiceOptions) {}

  /** Throws `validation_failed` for a key or unit that does not exist. */
  async create(organizationId: string, fields: NewTemplate): Promise<SensorTemplate> {
    const { uow, clock } = this.options;
    const keyName = await checkFields(uow.repos, organizationId, fields);
    const now = clock.now();
    const { unitMeasurementId = '', description = '' } = fields;
    const template = { ...fields, id: newId(), organizationId, keyName, unitMeasurementId, description, createdAt: now, updatedAt: now, revision: 1 };
    await uow.repos.templates.create(organizationId, template);
    return template;
  }

  /** Own or system. Throws `sensor_template_not_found`. */
  async get(organizationId: string, id: string): Promise<SensorTemplate> {
    const template = await this.options.uow.repos.templates.find(organizationId, id);
    if (!template) throw notFound('sensor_template', id);
    return template;
  }

  /** What is wrong with the key that a template names. */
  async checkKey(organizationId: string, keyNameId: string): Promise<Violation[]> {
    return keyViolations(keyNameId, await findKey(this.options.uow.repos, organizationId, keyNameId));
  }

  /** Those of the ids that the organization sees, own or system, in no order. */
  async findTemplates(organizationId: string, ids: readonly string[]): Promise<SensorTemplate[]> {
    return await this.options.uow.repos.templates.findTemplates(organizationId, ids);
  }

  /** Own templates newest first, then the system's; all unless `size` or `token` is given. Throws `validation_failed` for a token that is not of this list. */
  async list(organizationId: string, size: number | undefined, token: string): Promise<ListPage<SensorTemplate>> {
    const { uow, cursors } = this.options;
    return await listPage(cursors, [organizationId, 'sensor_templates'], size, token, async (after, limit) => await uow.repos.templates.list(organizationId, after, limit));
  }

  /** Throws `sensor_template_not_found`, `system_record`, `changed_meanwhile`, `validation_failed`, `template_in_use` (the type of values, while a command expects one). */
  async update(organizationId: string, id: string, fields: TemplateFields, etag?: string): Promise<SensorTemplate> {
    const { uow, clock, valueTypeUses } = this.options;
    return await uow.transaction(async (repos, db) => {
      const old = ownOf(await repos.templates.lock(organizationId, id), id);
      checkEtag('sensor_template', old.revision, etag);
      await checkFields(repos, organizationId, fields);
      if (fields.valueType !== undefined && fields.valueType !== old.valueType) {
        const uses = await valueTypeUses(db, organizationId, id);
        if (uses > 0) throw templateInUse(id, uses, `${uses} commands expect a state of its valueType; change those commands first, or create another template`);
      }
      await repos.templates.update(organizationId, id, fields, clock.now());
      return ownOf(await repos.templates.find(organizationId, id), id);
    });
  }

  /** Throws `sensor_template_not_found`, `system_record`, `changed_meanwhile`, `template_in_use`. */
  async delete(organizationId: string, id: string, etag?: string): Promise<void> {
    const { uow, sensorUses } = this.options;
    const { templates } = uow.repos;
    const { revision } = ownOf(await templates.find(organizationId, id), id);
    checkEtag('sensor_template', revision, etag);
    const outcome = await templates.delete(organizationId, id, etag === undefined ? undefined : revision);
    if (outcome === 'deleted') return;
    if (outcome === 'missing') return checkEtag('sensor_template', ownOf(await templates.find(organizationId, id), id).revision, etag); // somebody was faster
    const uses = await sensorUses(organizationId, id);
    throw templateInUse(id, uses, `${uses} sensors use it; remove them or give them another template first`);
  }
}

/** What was found, if it may be changed. Throws `sensor_template_not_found`, `system_record`. */
function ownOf(template: SensorTemplate | undefined, id: string): SensorTemplate {
  if (!template) throw notFound('sensor_template', id);
  if (template.organizationId === undefined) throw systemRecord('sensor template', id);
  return template;
}

/** The name of the key. Throws `validation_failed` for a key or unit that does not exist. */
async function checkFields(repos: SensorTemplateRepositories, organizationId: string, fields: TemplateFields): Promise<string> {
  const key = await findKey(repos, organizationId, fields.keyNameId);
  throwIfAny([...unitViolations(fields.unitMeasurementId), ...keyViolations(fields.keyNameId, key)]);
  return key?.name ?? '';
}

async function findKey(repos: SensorTemplateRepositories, organizationId: string, id: string): Promise<NormalizedKey | undefined> {
  return isId(id) ? await repos.keys.find(organizationId, id) : undefined;
}

function keyViolations(id: string, key: NormalizedKey | undefined): Violation[] {
  if (key) return [];
  return [{ field: 'keyNameId', description: `${JSON.stringify(id)} is not a normalized key of this organization or of the system; list the normalized keys to see those that are` }];
}

function templateInUse(id: string, uses: number, what: string): DomainError {
  return new DomainError('conflict', 'template_in_use', `the sensor template is in use: ${what}`, { metadata: { sensor_template_id: id, uses: String(uses) } });
}
