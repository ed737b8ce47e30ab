import type { Db } from '../database';
import { validationFailed } from '../kernel/errors';
import { isDeviceInside, type DeviceReach } from '../kernel/reach';
import type { Sensor, SensorMapping } from './device';
import { foreignKeyOr } from './foreignKeyOr';

interface BoundSensor {
  readonly id: string;
  readonly deviceId: string;
  readonly connectionId: string | null;
}

// SQLite takes at most 500 rows in one insert of the query builder.
const ROWS_AT_ONCE = 100;
const templateDeleted = (field: string) => () => validationFailed([{ field, description: 'names a sensor template that was deleted just now; list the sensor templates to choose another' }]);

/** The sensors of a device and their mappings. Assumes validated input, a device of `organizationId`, and that it is locked. */
export class SensorRepository {
  constructor(private readonly db: Db) {}

  /** Attaches sensors behind those that the device has, in this order. */
  async add(organizationId: string, deviceId: string, sensors: readonly Sensor[]): Promise<void> {
    const last = await this.sensors(organizationId, deviceId).max<{ position: number | null }>({ position: 's.position' }).first();
    const first = (last?.position ?? -1) + 1;
    const rows = sensors.map((sensor, at) => ({
      id: sensor.id,
      organization_id: organizationId,
      device_id: deviceId,
      sensor_template_id: sensor.sensorTemplateId,
      position: first + at,
      created_at: sensor.createdAt,
      updated_at: sensor.updatedAt,
    }));
    await foreignKeyOr(this.db.dialect, templateDeleted('sensorTemplateIds'), async () => await this.db.knex('sensors').insert(rows));
  }

  /** Removes sensors with their mappings. */
  async remove(organizationId: string, deviceId: string, sensorIds: readonly string[]): Promise<void> {
    await this.sensors(organizationId, deviceId).whereIn('s.id', [...sensorIds]).delete();
  }

  /** Gives a sensor another template. */
  async setTemplate(organizationId: string, deviceId: string, sensorId: string, sensorTemplateId: string, now: number): Promise<void> {
    const update = async () => await this.sensors(organizationId, deviceId).where('s.id', sensorId).update({ sensor_template_id: sensorTemplateId, updated_at: now });
    await foreignKeyOr(this.db.dialect, templateDeleted('sensorTemplateId'), update);
  }

  /** Makes these the mappings of the device, in this order. */
  async setMappings(organizationId: string, deviceId: string, mappings: readonly SensorMapping[]): Promise<void> {
    await this.db.knex('sensor_mappings as m').where('m.organization_id', organizationId).where('m.device_id', deviceId).delete();
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
    for (let at = 0; at < rows.length; at += ROWS_AT_ONCE) await this.db.knex('sensor_mappings').insert(rows.slice(at, at + ROWS_AT_ONCE));
  }

  /** How many sensors of the organization have this template. */
  async countByTemplate(organizationId: string, sensorTemplateId: string): Promise<number> {
    const row = await this.db.knex('sensors as s').where('s.organization_id', organizationId).where('s.sensor_template_id', sensorTemplateId).count<{ sensors: number }[]>({ sensors: '*' }).first();
    return row?.sensors ?? 0;
  }

  /** The first of these sensors that is not there, or whose device lies outside the reach of a limited key; undefined: none. */
  async sensorsOutside(organizationId: string, reach: DeviceReach, sensorIds: readonly string[]): Promise<string | undefined> {
    // Compared here: with all that a key names a statement takes longer to read than these rows.
    const query = this.db.knex('sensors as s').leftJoin('physical_devices as p', 'p.device_id', 's.device_id').where('s.organization_id', organizationId).whereIn('s.id', [...sensorIds]);
    const rows = await query.select<BoundSensor[]>({ id: 's.id', deviceId: 's.device_id', connectionId: 'p.connection_id' });
    const inside = new Set(rows.filter(({ deviceId, connectionId }) => isDeviceInside(reach, deviceId, connectionId)).map(({ id }) => id));
    return sensorIds.find((id) => !inside.has(id));
  }

  private sensors(organizationId: string, deviceId: string) {
    return this.db.knex('sensors as s').where('s.organization_id', organizationId).where('s.device_id', deviceId);
  }
}
