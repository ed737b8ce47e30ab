import type { Db } from '../../database';
import type { JsonValue } from '../../kernel/jsonValue';
import { notFound } from '../../kernel/errors';
import type { ValueType } from '../../sensorTemplates';

/** A sensor with what it showed last. */
export interface LatestOfSensor {
  readonly sensorId: string;
  readonly deviceId: string;
  /** Undefined: it never showed anything. */
  readonly last: LastValue | undefined;
}

/** What a sensor showed last. Times are Unix milliseconds. */
export interface LastValue {
  readonly valueType: ValueType;
  readonly value: JsonValue;
  /** The time that came with it; undefined: none did. */
  readonly ownTime: number | undefined;
  readonly receivedAt: number;
}

interface LatestRow {
  readonly sensorId: string;
  readonly deviceId: string;
  readonly valueType: ValueType;
  readonly value: string | null;
  readonly ownTime: number | null;
  readonly receivedAt: number | null;
}

/** Reads what sensors showed last. */
export class LatestQueryRepository {
  constructor(private readonly db: Db) {}

  /** These sensors, in this order. Throws `sensor_not_found`. */
  async ofSensors(organizationId: string, sensorIds: readonly string[]): Promise<LatestOfSensor[]> {
    const rows: LatestRow[] = await this.query(organizationId).whereIn('s.id', [...sensorIds]);
    const found = new Map(rows.map((row) => [row.sensorId, row]));
    return sensorIds.map((id) => {
      const row = found.get(id);
      if (!row) throw notFound('sensor', id);
      return latestOf(row);
    });
  }

  /** The sensors of these devices, in this order and theirs; at most `limit`. Throws `device_not_found`. */
  async ofDevices(organizationId: string, deviceIds: readonly string[], limit: number): Promise<LatestOfSensor[]> {
    const devices: { id: string }[] = await this.db.knex('digital_devices as d').where('d.organization_id', organizationId).whereIn('d.id', [...deviceIds]).select('d.id');
    const missing = deviceIds.find((id) => !devices.some((device) => device.id === id));
    if (missing !== undefined) throw notFound('device', missing);
    const rows: LatestRow[] = await this.query(organizationId).whereIn('s.device_id', [...deviceIds]).orderBy(['s.device_id', 's.position']).limit(limit);
    const place = new Map(deviceIds.map((id, at) => [id, at]));
    return rows.map(latestOf).toSorted((one, other) => (place.get(one.deviceId) ?? 0) - (place.get(other.deviceId) ?? 0));
  }

  private query(organizationId: string) {
    return this.db
      .knex('sensors as s')
      .innerJoin('sensor_templates as t', 't.id', 's.sensor_template_id')
      .leftJoin('latest_readings as l', 'l.sensor_id', 's.id')
      .where('s.organization_id', organizationId)
      .select({ sensorId: 's.id', deviceId: 's.device_id', valueType: 't.value_type', value: 'l.value', ownTime: 'l.own_time', receivedAt: 'l.received_at' });
  }
}

function latestOf({ sensorId, deviceId, ...row }: LatestRow): LatestOfSensor {
  if (row.value === null) return { sensorId, deviceId, last: undefined };
  const value = JSON.parse(row.value) as JsonValue;
  return { sensorId, deviceId, last: { valueType: typeOf(row.valueType, value), value, ownTime: row.ownTime ?? undefined, receivedAt: row.receivedAt ?? 0 } };
}

/** The type of the template, but of a value that is older than the template the one that it has itself. */
function typeOf(valueType: ValueType, value: JsonValue): ValueType {
  if (valueType === 'json') return 'json';
  if (typeof value === 'number') return valueType === 'integer' && Number.isSafeInteger(value) ? 'integer' : 'number';
  if (typeof value === 'boolean') return 'boolean';
  return typeof value === 'string' ? 'string' : 'json';
}
