import type { Db } from '../../database';
import { notFound } from '../../kernel/errors';

/** A sensor and the number that its readings lie under. */
export interface SeriesOfSensor {
  readonly sensorId: string;
  readonly number: number;
}

// PostgreSQL and SQLite both take more values in one statement.
const MOST_VALUES = 500;

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

  /** The series after a number of these sensors and those of these devices, of all sensors if neither are named; in the order of their numbers, at most `limit`. */
  async series(organizationId: string, sensorIds: readonly string[], deviceIds: readonly string[], after: number, limit: number): Promise<SeriesOfSensor[]> {
    const query = this.db.knex('reading_series as n').innerJoin('sensors as s', 's.id', 'n.sensor_id').where('n.organization_id', organizationId).where('n.number', '>', after);
    if (sensorIds.length + deviceIds.length > 0) void query.where((either) => void either.whereIn('s.id', [...sensorIds]).orWhereIn('s.device_id', [...deviceIds]));
    return await query.orderBy('n.number').limit(limit).select<SeriesOfSensor[]>({ sensorId: 's.id', number: 'n.number' });
  }
}
