import type { Knex } from 'knex';
import type { Db } from '../database';
import { listOwnThenSystem } from './ownThenSystemRepository';
import { SYSTEM_OWNER, type OwnThenSystemPosition, type SensorTemplate, type ValueType } from './sensorTemplate';
import type { SystemTemplate } from './systemRecords';

interface SensorTemplateRow {
  id: string;
  organization_id: string | null;
  key_name_id: string;
  key_name: string;
  sensor_type: string;
  value_type: ValueType;
  unit_measurement_id: string;
  description: string;
  revision: number;
  created_at: number;
  updated_at: number;
}

/** The writable fields of a template. An update leaves undefined fields unchanged. */
export interface TemplateFields {
  readonly keyNameId: string;
  readonly sensorType: string | undefined;
  readonly valueType: ValueType | undefined;
  /** An id of UNITS, or empty. */
  readonly unitMeasurementId: string | undefined;
  readonly description: string | undefined;
}

/**
 * Sensor templates: an organization sees its own templates and the system templates. Assumes that keys and units are
 * validated.
 */
export class SensorTemplateRepository {
  constructor(private readonly db: Db) {}

  async create(organizationId: string, template: Omit<SensorTemplate, 'keyName'>): Promise<void> {
    await this.db.knex('sensor_templates').insert({
      ...formatColumns(template),
      id: template.id,
      organization_id: organizationId,
      owner: organizationId,
      revision: template.revision,
      created_at: template.createdAt,
      updated_at: template.updatedAt,
    });
  }

  /** Finds an own or system template; undefined if it does not exist. */
  async find(organizationId: string, id: string): Promise<SensorTemplate | undefined> {
    const [template] = await this.findTemplates(organizationId, [id]);
    return template;
  }

  /** Same as `find`, and locks an own template until the end of the transaction. */
  async lock(organizationId: string, id: string): Promise<SensorTemplate | undefined> {
    await this.db.dialect.lockForUpdate(this.queryOwn(organizationId, id).select('id'));
    return await this.find(organizationId, id);
  }

  /** Returns the templates with these ids that the organization sees, own or system, in no particular order. */
  async findTemplates(organizationId: string, ids: readonly string[]): Promise<SensorTemplate[]> {
    const rows = await this.queryTemplates().whereIn('r.owner', [organizationId, SYSTEM_OWNER]).whereIn('r.id', ids);
    return (rows as SensorTemplateRow[]).map(templateFromRow);
  }

  /**
   * Returns at most `limit` templates (undefined: all) after a position: own templates newest first, then system
   * templates.
   */
  async list(
    organizationId: string,
    after: OwnThenSystemPosition | undefined,
    limit: number | undefined,
  ): Promise<SensorTemplate[]> {
    const rows = await listOwnThenSystem<SensorTemplateRow>(
      (owner) => this.queryTemplates().where('r.owner', owner),
      organizationId,
      after,
      limit,
    );
    return rows.map(templateFromRow);
  }

  /** Updates an own template and increments its revision. */
  async update(organizationId: string, id: string, fields: TemplateFields, now: number): Promise<void> {
    await this.queryOwn(organizationId, id).update({
      ...formatColumns(fields),
      revision: this.db.knex.raw('revision + 1'),
      updated_at: now,
    });
  }

  /**
   * Deletes an own template, and only at `revision` if it is set. Returns `missing` if there is no such template, or
   * `in_use` if a sensor refers to it; nothing is deleted in both cases. Do not call it inside a transaction: a
   * violated foreign key would abort it.
   */
  async delete(
    organizationId: string,
    id: string,
    revision: number | undefined,
  ): Promise<'deleted' | 'missing' | 'in_use'> {
    const query = this.queryOwn(organizationId, id);
    if (revision !== undefined) query.where({ revision });
    try {
      return (await query.delete()) > 0 ? 'deleted' : 'missing';
    } catch (error) {
      if (this.db.dialect.isForeignKeyViolation(error)) return 'in_use';
      throw error;
    }
  }

  /** Returns the system templates that this server or an earlier version created. */
  async listSystem(): Promise<SensorTemplate[]> {
    const rows = await this.queryTemplates().where('r.owner', SYSTEM_OWNER);
    return (rows as SensorTemplateRow[]).map(templateFromRow);
  }

  /** Inserts or updates system templates; expects at least one. */
  async upsertSystem(templates: readonly SystemTemplate[], now: number): Promise<void> {
    const rows = templates.map((template) => ({
      ...formatColumns(template),
      id: template.id,
      organization_id: null,
      owner: SYSTEM_OWNER,
      created_at: now,
      updated_at: now,
    }));
    await this.db
      .knex('sensor_templates')
      .insert(rows)
      .onConflict('id')
      .merge([...COLUMNS, 'updated_at']);
  }

  private queryOwn(organizationId: string, id: string) {
    return this.db.knex('sensor_templates').where({ owner: organizationId, id });
  }

  /** Builds the query for templates with the names of their keys. `r` is the template. */
  private queryTemplates(): Knex.QueryBuilder {
    return this.db
      .knex('sensor_templates as r')
      .join('normalized_keys as k', 'k.id', 'r.key_name_id')
      .select('r.*', 'k.name as key_name');
  }
}

const COLUMNS = ['key_name_id', 'sensor_type', 'value_type', 'unit_measurement_id', 'description'] as const;

// Knex omits undefined values from an update.
function formatColumns(fields: TemplateFields): Record<(typeof COLUMNS)[number], string | undefined> {
  return {
    key_name_id: fields.keyNameId,
    sensor_type: fields.sensorType,
    value_type: fields.valueType,
    unit_measurement_id: fields.unitMeasurementId,
    description: fields.description,
  };
}

function templateFromRow(row: SensorTemplateRow): SensorTemplate {
  return {
    id: row.id,
    organizationId: row.organization_id ?? undefined,
    keyNameId: row.key_name_id,
    keyName: row.key_name,
    sensorType: row.sensor_type,
    valueType: row.value_type,
    unitMeasurementId: row.unit_measurement_id,
    description: row.description,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    revision: row.revision,
  };
}
