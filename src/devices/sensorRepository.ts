import type { Db } from '../database';
import { validationFailed } from '../kernel/errors';
import { isDeviceInScope, type DeviceScope } from '../kernel/resourceScope';
import type { Sensor, SensorMapping } from './device';
import { onForeignKeyViolation } from './onForeignKeyViolation';

interface BoundSensor {
  readonly id: string;
  readonly deviceId: string;
  readonly connectionId: string | null;
}

// SQLite allows at most 500 rows in one insert of the query builder.
const ROW_BATCH_SIZE = 100;
const createTemplateDeletedError = (field: string) => () =>
  validationFailed([
    {
      field,
      description: 'refers to a sensor template that was just deleted; call ListSensorTemplates and choose another one',
    },
  ]);

/**
 * Stores the sensors of a device and their mappings. Assumes validated input and a locked device of `organizationId`.
 */
export class SensorRepository {
  constructor(private readonly db: Db) {}

  /** Attaches sensors in this order, after the existing ones. */
  async add(organizationId: string, deviceId: string, sensors: readonly Sensor[]): Promise<void> {
    const lastRow = await this.querySensors(organizationId, deviceId)
      .max<{ position: number | null }>({ position: 's.position' })
      .first();
    const firstPosition = (lastRow?.position ?? -1) + 1; // 0 if there is no sensor yet
    const rows = sensors.map((sensor, index) => ({
      id: sensor.id,
      organization_id: organizationId,
      device_id: deviceId,
      sensor_template_id: sensor.sensorTemplateId,
      position: firstPosition + index,
      created_at: sensor.createdAt,
      updated_at: sensor.updatedAt,
    }));
    await onForeignKeyViolation(
      this.db.dialect,
      createTemplateDeletedError('sensorTemplateIds'),
      async () => await this.db.knex('sensors').insert(rows),
    );
  }

  /** Removes sensors; the foreign key deletes their mappings. */
  async remove(organizationId: string, deviceId: string, sensorIds: readonly string[]): Promise<void> {
    await this.querySensors(organizationId, deviceId)
      .whereIn('s.id', [...sensorIds])
      .delete();
  }

  /** Assigns another template to a sensor. */
  async setTemplate(
    organizationId: string,
    deviceId: string,
    sensorId: string,
    sensorTemplateId: string,
    now: number,
  ): Promise<void> {
    const update = async () =>
      await this.querySensors(organizationId, deviceId)
        .where('s.id', sensorId)
        .update({ sensor_template_id: sensorTemplateId, updated_at: now });
    await onForeignKeyViolation(this.db.dialect, createTemplateDeletedError('sensorTemplateId'), update);
  }

  /** Replaces the mappings of the device with these, in this order. */
  async setMappings(organizationId: string, deviceId: string, mappings: readonly SensorMapping[]): Promise<void> {
    await this.db
      .knex('sensor_mappings as m')
      .where('m.organization_id', organizationId)
      .where('m.device_id', deviceId)
      .delete();
    const rows = mappings.map((mapping, position) => ({
      id: mapping.id,
      organization_id: organizationId,
      device_id: deviceId,
      sensor_id: mapping.sensorId,
      source_path: mapping.sourcePath,
      position,
      created_at: mapping.createdAt,
      updated_at: mapping.updatedAt,
    }));
    for (let offset = 0; offset < rows.length; offset += ROW_BATCH_SIZE)
      await this.db.knex('sensor_mappings').insert(rows.slice(offset, offset + ROW_BATCH_SIZE));
  }

  /** Counts the sensors of the organization that use this template. */
  async countByTemplate(organizationId: string, sensorTemplateId: string): Promise<number> {
    const row = await this.db
      .knex('sensors as s')
      .where('s.organization_id', organizationId)
      .where('s.sensor_template_id', sensorTemplateId)
      .count<{ sensors: number }[]>({ sensors: '*' })
      .first();
    return row?.sensors ?? 0;
  }

  /**
   * Returns the first sensor that does not exist, or whose device is outside the scope of a restricted key; undefined
   * if there is none.
   */
  async findOutOfScope(
    organizationId: string,
    deviceScope: DeviceScope,
    sensorIds: readonly string[],
  ): Promise<string | undefined> {
    // Compared here: with all ids of a key, parsing the statement costs more than reading these rows.
    const query = this.db
      .knex('sensors as s')
      .leftJoin('physical_devices as p', 'p.device_id', 's.device_id')
      .where('s.organization_id', organizationId)
      .whereIn('s.id', [...sensorIds]);
    const rows = await query.select<BoundSensor[]>({
      id: 's.id',
      deviceId: 's.device_id',
      connectionId: 'p.connection_id',
    });
    const inside = new Set(
      rows
        .filter(({ deviceId, connectionId }) => isDeviceInScope(deviceScope, deviceId, connectionId))
        .map(({ id }) => id),
    );
    return sensorIds.find((id) => !inside.has(id));
  }

  private querySensors(organizationId: string, deviceId: string) {
    return this.db.knex('sensors as s').where('s.organization_id', organizationId).where('s.device_id', deviceId);
  }
}
