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

/** What can be said of a template; a field that is undefined stays as it is. */
export interface TemplateFields {
  readonly keyNameId: string;
  readonly sensorType: string | undefined;
  readonly valueType: ValueType | undefined;
  /** An id of UNITS; empty: none. */
  readonly unitMeasurementId: string | undefined;
  readonly description: string | undefined;
}

/** Sensor templates: an organization sees its own and those that come with the server. Assumes that keys and units were checked. */
export class SensorTemplateRepository {
  constructor(private readonly db: Db) {}

  async create(organizationId: string, template: Omit<SensorTemplate, 'keyName'>): Promise<void> {
    await this.db.knex('sensor_templates').insert({
      ...columns(template),
      id: template.id,
      organization_id: organizationId,
      owner: organizationId,
      revision: template.revision,
      created_at: template.createdAt,
      updated_at: template.updatedAt,
    });
  }

  /** Own or system; undefined if there is none. */
  async find(organizationId: string, id: string): Promise<SensorTemplate | undefined> {
    const [template] = await this.findTemplates(organizationId, [id]);
    return template;
  }

  /** As find; nobody else changes an own one until the end of the transaction. */
  async lock(organizationId: string, id: string): Promise<SensorTemplate | undefined> {
    await this.db.dialect.lockForUpdate(this.own(organizationId, id).select('id'));
    return await this.find(organizationId, id);
  }

  /** Those of the ids that the organization sees, own or system, in no order. */
  async findTemplates(organizationId: string, ids: readonly string[]): Promise<SensorTemplate[]> {
    const rows = await this.rows().whereIn('r.owner', [organizationId, SYSTEM_OWNER]).whereIn('r.id', ids);
    return (rows as SensorTemplateRow[]).map(templateFromRow);
  }

  /** At most `limit` (undefined: all) after a position: own ones newest first, then the system's. */
  async list(organizationId: string, after: OwnThenSystemPosition | undefined, limit: number | undefined): Promise<SensorTemplate[]> {
    const rows = await listOwnThenSystem<SensorTemplateRow>((owner) => this.rows().where('r.owner', owner), organizationId, after, limit);
    return rows.map(templateFromRow);
  }

  /** Changes an own template, and counts the change: a new revision. */
  async update(organizationId: string, id: string, fields: TemplateFields, at: number): Promise<void> {
    await this.own(organizationId, id).update({ ...columns(fields), revision: this.db.knex.raw('revision + 1'), updated_at: at });
  }

  /**
   * Deletes an own template, of this revision if one is given: `missing` if there is none; `in_use` if a sensor refers to it, and then nothing
   * happened. Not inside a transaction: a refusal would break it.
   */
  async delete(organizationId: string, id: string, revision: number | undefined): Promise<'deleted' | 'missing' | 'in_use'> {
    const wanted = this.own(organizationId, id);
    if (revision !== undefined) wanted.where({ revision });
    try {
      return (await wanted.delete()) > 0 ? 'deleted' : 'missing';
    } catch (error) {
      if (this.db.dialect.isForeignKeyViolation(error)) return 'in_use';
      throw error;
    }
  }

  /** The templates that came with this server or an earlier one. */
  async listSystem(): Promise<SensorTemplate[]> {
    const rows = await this.rows().where('r.owner', SYSTEM_OWNER);
    return (rows as SensorTemplateRow[]).map(templateFromRow);
  }

  /** Writes templates of the system, new or changed; at least one. */
  async putSystem(templates: readonly SystemTemplate[], at: number): Promise<void> {
    const rows = templates.map((template) => ({ ...columns(template), id: template.id, organization_id: null, owner: SYSTEM_OWNER, created_at: at, updated_at: at }));
    await this.db.knex('sensor_templates').insert(rows).onConflict('id').merge([...COLUMNS, 'updated_at']);
  }

  private own(organizationId: string, id: string) {
    return this.db.knex('sensor_templates').where({ owner: organizationId, id });
  }

  private rows(): Knex.QueryBuilder {
    return this.db.knex('sensor_templates as r').join('normalized_keys as k', 'k.id', 'r.key_name_id').select('r.*', 'k.name as key_name');
  }
}

const COLUMNS = ['key_name_id', 'sensor_type', 'value_type', 'unit_measurement_id', 'description'] as const;

// Knex leaves out of an update what is undefined.
function columns(fields: TemplateFields): Record<(typeof COLUMNS)[number], string | undefined> {
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
