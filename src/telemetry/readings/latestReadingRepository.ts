import type { Db, HotStatement } from '../../database';
import type { Reading } from '../../executions';
import type { JsonValue } from '../../kernel/jsonValue';

interface ReadingRow {
  readonly sensor_id: string;
  readonly source_path: string;
  readonly value: string;
  readonly own_time: number | null;
  readonly clock: string | null;
  readonly received_at: number;
}

const FIND: HotStatement = {
  name: 'latestReadings.find',
  // What another device in the field showed, or another path, says nothing about this one.
  sql: () => `
    select r.sensor_id, r.source_path, r.value, r.own_time, r.clock, r.received_at from latest_readings r
    where r.organization_id = ? and r.physical_device_id = ? and r.sensor_id = ?
      and exists (select 1 from sensor_mappings m where m.organization_id = r.organization_id and m.sensor_id = r.sensor_id and m.source_path = r.source_path)`,
};

const STORE: HotStatement = {
  name: 'latestReadings.store',
  // The rule of `replaces`, for who stored one meanwhile.
  sql: () => `
    insert into latest_readings (sensor_id, organization_id, physical_device_id, source_path, value, own_time, clock, received_at)
    select s.id, s.organization_id, cast(? as text), cast(? as text), cast(? as text), cast(? as bigint), cast(? as text), cast(? as double precision) from sensors s where s.organization_id = ? and s.id = ?
    on conflict (sensor_id) do update set physical_device_id = excluded.physical_device_id, source_path = excluded.source_path, value = excluded.value,
      own_time = excluded.own_time, clock = excluded.clock, received_at = excluded.received_at
    where latest_readings.physical_device_id <> excluded.physical_device_id or latest_readings.source_path <> excluded.source_path
      or case when latest_readings.own_time <= latest_readings.received_at and excluded.own_time is not null and excluded.clock = latest_readings.clock
      then excluded.own_time >= latest_readings.own_time else excluded.received_at >= latest_readings.received_at end`,
};

/** What each sensor showed last. Assumes sensors of `organizationId`. */
export class LatestReadingRepository {
  constructor(private readonly db: Db) {}

  /** The last readings of those of these sensors that showed anything on this physical device by the path that they are mapped to now, by sensor. */
  async find(organizationId: string, physicalDeviceId: string, sensorIds: readonly string[]): Promise<Map<string, Reading>> {
    const found = new Map<string, Reading>();
    for (const sensorId of new Set(sensorIds)) {
      const [row] = await this.db.all<ReadingRow>(FIND, [organizationId, physicalDeviceId, sensorId]);
      if (row) found.set(sensorId, { sensorId, sourcePath: row.source_path, value: JSON.parse(row.value) as JsonValue, ownTime: row.own_time ?? undefined, clock: row.clock ?? undefined, receivedAt: row.received_at });
    }
    return found;
  }

  /** Keeps readings of different sensors, each if it takes the place of the one that is stored (`replaces`), or that is of another physical device or path. Only inside a transaction. */
  async store(organizationId: string, physicalDeviceId: string, readings: readonly Reading[]): Promise<void> {
    // One order for all, so that two uplinks never wait for each other's rows.
    for (const { sensorId, sourcePath, value, ownTime, clock, receivedAt } of readings.toSorted((one, other) => (one.sensorId < other.sensorId ? -1 : 1))) {
      await this.db.all(STORE, [physicalDeviceId, sourcePath, JSON.stringify(value), ownTime ?? null, clock ?? null, receivedAt, organizationId, sensorId]);
    }
  }
}
