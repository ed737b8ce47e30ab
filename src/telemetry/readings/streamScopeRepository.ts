import type { Db } from '../../database';
import { notFound } from '../../kernel/errors';

/** A sensor and the number that its readings lie under. */
export interface SeriesOfSensor {
  readonly sensorId: string;
  readonly number: number;
}

// PostgreSQL and SQLite both take more values in one statement.
const MOST_VALUES = 500;

const COLUMNS = { sensorId: 's.id', number: 'n.number' };

/** Reads which sensors a stream of readings is about. */
export class StreamScopeRepository {
  constructor(private readonly db: Db) {}

  /** Throws `sensor_not_found` or `device_not_found` for the first that is not there. */
  async check(organizationId: string, sensorIds: readonly string[], deviceIds: readonly string[]): Promise<void> {
    for (const [table, thing, ids] of [['sensors', 'sensor', sensorIds], ['digital_devices', 'device', deviceIds]] as const) {
      const rows: { id: string }[] = ids.length === 0 ? [] : await this.db.knex(`${table} as t`).where('t.organization_id', organizationId).whereIn('t.id', [...ids]).select('t.id');
      const found = new Set(rows.map(({ id }) => id));
      const missing = ids.find((id) => !found.has(id));
      if (missing !== undefined) throw notFound(thing, missing);
    }
  }

  /** Those of these sensors that are of one of these devices. */
  async ofDevices(organizationId: string, sensorIds: readonly string[], deviceIds: readonly string[]): Promise<Set<string>> {
    const found = new Set<string>();
    for (let at = 0; at < sensorIds.length; at += MOST_VALUES) {
      const portion = sensorIds.slice(at, at + MOST_VALUES);
      const rows: { id: string }[] = await this.db.knex('sensors as s').where('s.organization_id', organizationId).whereIn('s.id', portion).whereIn('s.device_id', [...deviceIds]).select('s.id');
      for (const { id } of rows) found.add(id);
    }
    return found;
  }

  /** The series of these sensors, at most 500. */
  async ofSensors(organizationId: string, sensorIds: readonly string[]): Promise<SeriesOfSensor[]> {
    return await this.seriesOfSensors(organizationId).whereIn('s.id', [...sensorIds]).select<SeriesOfSensor[]>(COLUMNS);
  }

  /** The series of all sensors of a device. */
  async ofDevice(organizationId: string, deviceId: string): Promise<SeriesOfSensor[]> {
    return await this.seriesOfSensors(organizationId).where('s.device_id', deviceId).orderBy('s.position').select<SeriesOfSensor[]>(COLUMNS);
  }

  /** The series of all sensors after a number, in the order of their numbers, at most `limit`. */
  async all(organizationId: string, after: number, limit: number): Promise<SeriesOfSensor[]> {
    const query = this.db.knex('reading_series as n').innerJoin('sensors as s', 's.id', 'n.sensor_id').where('n.organization_id', organizationId).where('n.number', '>', after);
    return await query.orderBy('n.number').limit(limit).select<SeriesOfSensor[]>(COLUMNS);
  }

  // From the sensors, not from all the series of the organization.
  private seriesOfSensors(organizationId: string) {
    return this.db.knex('sensors as s').innerJoin('reading_series as n', 'n.sensor_id', 's.id').where('s.organization_id', organizationId);
  }
}
