import type { Db, UnitOfWork } from '../database';
import type { Clock } from '../kernel/clock';
import { DomainError, notFound, throwIfAny, type Violation } from '../kernel/errors';
import { checkEtag } from '../kernel/etags';
import { isId, newId } from '../kernel/ids';
import type { Cursors } from '../kernel/pages';
import { readListPage, type ListPage } from './readListPage';
import type { NormalizedKey, SensorTemplate, ValueType } from './sensorTemplate';
import type { SensorTemplateRepositories } from './sensorTemplateRepositories';
import type { TemplateFields } from './sensorTemplateRepository';
import { readOnlySystemRecord } from './readOnlySystemRecord';
import { checkUnit } from './units';

/** Dependencies of the service. The composition root (server) passes the hooks of modules that depend on this one. */
interface SensorTemplateServiceOptions {
  readonly uow: UnitOfWork<SensorTemplateRepositories>;
  readonly clock: Clock;
  readonly cursors: Cursors;
  /** Counts the sensors that use a template. */
  readonly countSensorUses: (organizationId: string, templateId: string) => Promise<number>;
  /**
   * Counts the commands that expect a state of a sensor of this template. Runs inside the transaction that changes the
   * value type.
   */
  readonly countCommandUses: (db: Db, organizationId: string, templateId: string) => Promise<number>;
}

/** The fields of a new template. */
interface NewTemplate extends TemplateFields {
  readonly sensorType: string;
  readonly valueType: ValueType;
}

/** Manages sensor templates. */
export class SensorTemplateService {
  constructor(private readonly options: SensorTemplateServiceOptions) {}

  /** Throws `validation_failed` if the key or unit does not exist. */
  async create(organizationId: string, fields: NewTemplate): Promise<SensorTemplate> {
    const { uow, clock } = this.options;
    const keyName = await validateKeyAndUnit(uow.repos, organizationId, fields);
    const now = clock.now();
    const { unitMeasurementId = '', description = '' } = fields;
    const template = {
      ...fields,
      id: newId(),
      organizationId,
      keyName,
      unitMeasurementId,
      description,
      createdAt: now,
      updatedAt: now,
      revision: 1,
    };
    await uow.repos.templates.create(organizationId, template);
    return template;
  }

  /** Returns an own or system template. Throws `sensor_template_not_found`. */
  async get(organizationId: string, id: string): Promise<SensorTemplate> {
    const template = await this.options.uow.repos.templates.find(organizationId, id);
    if (!template) throw notFound('sensor_template', id);
    return template;
  }

  /** Validates the normalized key that a template refers to. */
  async checkKey(organizationId: string, keyNameId: string): Promise<Violation[]> {
    return checkKeyExists(keyNameId, await findKey(this.options.uow.repos, organizationId, keyNameId));
  }

  /**
   * Returns own templates newest first, then system templates; all of them unless `size` or `token` is set. Throws
   * `validation_failed` for a token of another list.
   */
  async list(organizationId: string, size: number | undefined, token: string): Promise<ListPage<SensorTemplate>> {
    const { uow, cursors } = this.options;
    return await readListPage(
      cursors,
      [organizationId, 'sensor_templates'],
      size,
      token,
      async (after, limit) => await uow.repos.templates.list(organizationId, after, limit),
    );
  }

  /**
   * Throws `sensor_template_not_found`, `read_only_record`, `version_conflict`, or `template_in_use` if the value type
   * changes while a command expects a state of it; `validation_failed` for an unknown key or unit.
   */
  async update(organizationId: string, id: string, fields: TemplateFields, etag?: string): Promise<SensorTemplate> {
    const { uow, clock, countCommandUses } = this.options;
    return await uow.transaction(async (repos, db) => {
      const current = getOwn(await repos.templates.lock(organizationId, id), id);
      checkEtag('sensor_template', current.revision, etag);
      await validateKeyAndUnit(repos, organizationId, fields);
      if (fields.valueType !== undefined && fields.valueType !== current.valueType) {
        const uses = await countCommandUses(db, organizationId, id);
        if (uses > 0)
          throw templateInUse(
            id,
            uses,
            `${uses} commands depend on its valueType; change those commands first, or create another template`,
          );
      }
      await repos.templates.update(organizationId, id, fields, clock.now());
      return getOwn(await repos.templates.find(organizationId, id), id);
    });
  }

  /** Throws `sensor_template_not_found`, `read_only_record`, `version_conflict`, `template_in_use`. */
  async delete(organizationId: string, id: string, etag?: string): Promise<void> {
    const { uow, countSensorUses } = this.options;
    const { templates } = uow.repos;
    const { revision } = getOwn(await templates.find(organizationId, id), id);
    checkEtag('sensor_template', revision, etag);
    const outcome = await templates.delete(organizationId, id, etag === undefined ? undefined : revision);
    if (outcome === 'deleted') return;
    if (outcome === 'missing') {
      // Another call has deleted the template, so getOwn throws, or has changed it, so checkEtag throws.
      const current = getOwn(await templates.find(organizationId, id), id);
      return checkEtag('sensor_template', current.revision, etag);
    }
    const uses = await countSensorUses(organizationId, id);
    throw templateInUse(id, uses, `${uses} sensors use it; remove them or assign another template to them first`);
  }
}

/** Returns the template if the organization may change it. Throws `sensor_template_not_found`, `read_only_record`. */
function getOwn(template: SensorTemplate | undefined, id: string): SensorTemplate {
  if (!template) throw notFound('sensor_template', id);
  if (template.organizationId === undefined) throw readOnlySystemRecord('sensor template', id);
  return template;
}

/** Checks that the key and the unit exist, and returns the name of the key. Throws `validation_failed`. */
async function validateKeyAndUnit(
  repos: SensorTemplateRepositories,
  organizationId: string,
  fields: TemplateFields,
): Promise<string> {
  const key = await findKey(repos, organizationId, fields.keyNameId);
  throwIfAny([...checkUnit(fields.unitMeasurementId), ...checkKeyExists(fields.keyNameId, key)]);
  return key?.name ?? '';
}

/** Finds a key of the organization or the system; undefined if the key does not exist, or the id is invalid. */
async function findKey(
  repos: SensorTemplateRepositories,
  organizationId: string,
  id: string,
): Promise<NormalizedKey | undefined> {
  return isId(id) ? await repos.keys.find(organizationId, id) : undefined;
}

/** Reports a key that was not found. `id`: the id in the request. */
function checkKeyExists(id: string, key: NormalizedKey | undefined): Violation[] {
  if (key) return [];
  return [
    {
      field: 'keyNameId',
      description: `${JSON.stringify(id)} is not a normalized key of this organization or of the system; call ListNormalizedKeys for the valid ids`,
    },
  ];
}

/** Creates the error for a template that is in use. `uses`: how many sensors or commands use it. */
function templateInUse(id: string, uses: number, reason: string): DomainError {
  return new DomainError('conflict', 'template_in_use', `the sensor template is in use: ${reason}`, {
    metadata: { sensor_template_id: id, uses: String(uses) },
  });
}
