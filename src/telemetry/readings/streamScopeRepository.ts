import type { Db } from '../../database';
import { notFound } from '../../kernel/errors';
import type { DeviceReach } from '../../kernel/reach';

/** A sensor and the number that its readings lie under. */
export interface SeriesOfSensor {
  readonly sensorId: string;
  readonly number: number;
}

// PostgreSQL and SQLite both take more values in one statement.
const MOST_VALUES = 500;

// Their sensors are read at once: some thousand.
const DEVICES_AT_ONCE = 50;

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
  async ownedBy(organizationId: string, sensorIds: readonly string[], deviceIds: readonly string[]): Promise<Set<string>> {
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

  /** The devices of these sensors, of those that are there. */
  async owners(organizationId: string, sensorIds: readonly string[]): Promise<{ readonly sensorId: string; readonly deviceId: string }[]> {
    const found: { sensorId: string; deviceId: string }[] = [];
    for (let at = 0; at < sensorIds.length; at += MOST_VALUES) {
      const portion = sensorIds.slice(at, at + MOST_VALUES);
      found.push(...(await this.db.knex('sensors as s').where('s.organization_id', organizationId).whereIn('s.id', portion).select<{ sensorId: string; deviceId: string }[]>({ sensorId: 's.id', deviceId: 's.device_id' })));
    }
    return found;
  }

  /** The devices that a limited key reaches now, some at once, each once. */
  async *devicesInside(organizationId: string, reach: DeviceReach): AsyncGenerator<readonly string[]> {
    const named = [...reach.ids];
    for (let at = 0; at < named.length; at += DEVICES_AT_ONCE) yield named.slice(at, at + DEVICES_AT_ONCE);
    for (const connectionId of reach.connectionIds) {
      for (let after = ''; ;) {
        const page = await this.bound(organizationId, connectionId, after);
        yield page.map(({ deviceId }) => deviceId).filter((id) => !reach.ids.has(id));
        if (page.length < DEVICES_AT_ONCE) break;
        after = page.at(-1)?.clientDeviceId ?? '';
      }
    }
  }

  /** The series of all sensors of these devices. */
  async ofDevices(organizationId: string, deviceIds: readonly string[]): Promise<SeriesOfSensor[]> {
    return await this.seriesOfSensors(organizationId).whereIn('s.device_id', [...deviceIds]).select<SeriesOfSensor[]>(COLUMNS);
  }

  /** The series of all sensors after a number, in the order of their numbers, at most `limit`. */
  async all(organizationId: string, after: number, limit: number): Promise<SeriesOfSensor[]> {
    const query = this.db.knex('reading_series as n').innerJoin('sensors as s', 's.id', 'n.sensor_id').where('n.organization_id', organizationId).where('n.number', '>', after);
    return await query.orderBy('n.number').limit(limit).select<SeriesOfSensor[]>(COLUMNS);
  }

  /** The next devices that are bound to a connection, in the order of what they are called there. */
  private async bound(organizationId: string, connectionId: string, after: string): Promise<{ readonly deviceId: string; readonly clientDeviceId: string }[]> {
    const query = this.db.knex('physical_devices as p').where('p.organization_id', organizationId).where('p.connection_id', connectionId).where('p.client_device_id', '>', after);
    return await query.orderBy('p.client_device_id').limit(DEVICES_AT_ONCE).select<{ deviceId: string; clientDeviceId: string }[]>({ deviceId: 'p.device_id', clientDeviceId: 'p.client_device_id' });
  }

  // From the sensors, not from all the series of the organization.
  private seriesOfSensors(organizationId: string) {
    return this.db.knex('sensors as s').innerJoin('reading_series as n', 'n.sensor_id', 's.id').where('s.organization_id', organizationId);
  }
}
