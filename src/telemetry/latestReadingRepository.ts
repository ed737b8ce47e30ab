import type { Db, HotStatement } from '../database';
import type { Reading } from '../executions';
import type { JsonValue } from '../kernel/jsonValue';

interface ReadingRow {
  readonly sensor_id: string;
  readonly value: string;
  readonly own_time: number | null;
  readonly clock: string | null;
  readonly received_at: number;
}

const FIND: HotStatement = {
  name: 'latestReadings.find',
  sql: () => 'select r.sensor_id, r.value, r.own_time, r.clock, r.received_at from latest_readings r where r.organization_id = ? and r.sensor_id = ?',
};

const STORE: HotStatement = {
  name: 'latestReadings.store',
  // The rule of `replaces`, for who stored one meanwhile.
  sql: () => `
    insert into latest_readings (sensor_id, organization_id, value, own_time, clock, received_at)
    select s.id, s.organization_id, cast(? as text), cast(? as bigint), cast(? as text), cast(? as double precision) from sensors s where s.organization_id = ? and s.id = ?
    on conflict (sensor_id) do update set value = excluded.value, own_time = excluded.own_time, clock = excluded.clock, received_at = excluded.received_at
    where case when latest_readings.own_time <= latest_readings.received_at and excluded.own_time is not null and excluded.clock = latest_readings.clock
      then excluded.own_time >= latest_readings.own_time else excluded.received_at >= latest_readings.received_at end`,
};

/** What each sensor showed last. Assumes sensors of `organizationId`. */
export class LatestReadingRepository {
  constructor(private readonly db: Db) {}

  /** The last readings of those of these sensors that have one, by sensor. */
  async find(organizationId: string, sensorIds: readonly string[]): Promise<Map<string, Reading>> {
    const found = new Map<string, Reading>();
    for (const sensorId of new Set(sensorIds)) {
      const [row] = await this.db.all<ReadingRow>(FIND, [organizationId, sensorId]);
      if (row) found.set(sensorId, { sensorId, value: JSON.parse(row.value) as JsonValue, ownTime: row.own_time ?? undefined, clock: row.clock ?? undefined, receivedAt: row.received_at });
    }
    return found;
  }

  /** Keeps readings of different sensors, each if it takes the place of the one that is stored (`replaces`). Only inside a transaction. */
  async store(organizationId: string, readings: readonly Reading[]): Promise<void> {
    // One order for all, so that two uplinks never wait for each other's rows.
    for (const { sensorId, value, ownTime, clock, receivedAt } of readings.toSorted((one, other) => (one.sensorId < other.sensorId ? -1 : 1))) {
      await this.db.all(STORE, [JSON.stringify(value), ownTime ?? null, clock ?? null, receivedAt, organizationId, sensorId]);
    }
  }
}
