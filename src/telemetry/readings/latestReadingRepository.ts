import type { Db, HotStatement, SqlValue } from '../../database';
import type { Reading, SampleTimes } from '../../executions';
import type { JsonValue } from '../../kernel/jsonValue';

interface ReadingRow {
  readonly sensor_id: string;
  readonly source_path: string;
  readonly value: string;
  readonly own_time: number | null;
  readonly clock: string | null;
  readonly received_at: number;
  readonly buffered: number;
  readonly f_cnt: number | null;
}

/** What a sensor shows with an uplink. */
export type ShownValue = Pick<Reading, 'sensorId' | 'sourcePath' | 'value'>;

const FIND: HotStatement = {
  name: 'latestReadings.find',
  // What another device in the field showed, or another path, says nothing about this one.
  sql: () => `
    select r.sensor_id, r.source_path, r.value, r.own_time, r.clock, r.received_at, r.buffered, r.f_cnt from latest_readings r
    where r.organization_id = ? and r.physical_device_id = ? and r.sensor_id = ?
      and exists (select 1 from sensor_mappings m where m.organization_id = r.organization_id and m.sensor_id = r.sensor_id and m.source_path = r.source_path)`,
};

// A statement for each power of two, filled up with nulls, so that few statements stay prepared whatever devices have.
const MOST = 512;
const STORES = new Map<number, HotStatement>();
for (let rows = 1; rows <= MOST; rows *= 2) STORES.set(rows, storeOf(rows));

function storeOf(rows: number): HotStatement {
  const row = '(cast(? as text), cast(? as text), cast(? as text))';
  return {
    name: `latestReadings.store${rows}`,
    // The rule of `replaces`, for who stored one meanwhile.
    sql: () => `
      with sample (sensor_id, source_path, value) as (values ${Array.from({ length: rows }, () => row).join(', ')})
      insert into latest_readings (sensor_id, organization_id, physical_device_id, source_path, value, own_time, clock, received_at, buffered, f_cnt)
      select s.id, s.organization_id, cast(? as text), sample.source_path, sample.value, cast(? as bigint), cast(? as text), cast(? as double precision), cast(? as smallint), cast(? as bigint)
      from sample cross join sensors s where s.id = sample.sensor_id and s.organization_id = ?
      on conflict (sensor_id) do update set physical_device_id = excluded.physical_device_id, source_path = excluded.source_path, value = excluded.value,
        own_time = excluded.own_time, clock = excluded.clock, received_at = excluded.received_at, buffered = excluded.buffered, f_cnt = excluded.f_cnt
      where latest_readings.physical_device_id <> excluded.physical_device_id or latest_readings.source_path <> excluded.source_path
        or case when latest_readings.own_time <= latest_readings.received_at and excluded.own_time is not null and excluded.clock = latest_readings.clock
        then excluded.own_time >= latest_readings.own_time else excluded.received_at >= latest_readings.received_at end`,
  };
}

/** What each sensor showed last. Assumes sensors of `organizationId`. */
export class LatestReadingRepository {
  constructor(private readonly db: Db) {}

  /** The last readings of those of these sensors that showed anything on this physical device by the path that they are mapped to now, by sensor. */
  async find(organizationId: string, physicalDeviceId: string, sensorIds: readonly string[]): Promise<Map<string, Reading>> {
    const found = new Map<string, Reading>();
    for (const sensorId of new Set(sensorIds)) {
      const [row] = await this.db.all<ReadingRow>(FIND, [organizationId, physicalDeviceId, sensorId]);
      if (row) found.set(sensorId, readingOf(sensorId, row));
    }
    return found;
  }

  /**
   * Keeps readings of different sensors out of one uplink, at most 512, each if it takes the place of the one that is stored (`replaces`), or that
   * is of another physical device or path. Only inside a transaction.
   */
  async store(organizationId: string, physicalDeviceId: string, { ownTime, clock, receivedAt, isBuffered, fCnt }: SampleTimes, readings: readonly ShownValue[]): Promise<void> {
    if (readings.length === 0) return;
    const size = 2 ** Math.ceil(Math.log2(readings.length));
    const statement = STORES.get(size);
    if (!statement) throw new RangeError(`an uplink shows at most ${MOST} sensors, not ${readings.length}`);
    const values: SqlValue[] = readings.flatMap(({ sensorId, sourcePath, value }) => [sensorId, sourcePath, JSON.stringify(value)]);
    for (let row = readings.length; row < size; row++) values.push(null, null, null);
    await this.db.all(statement, [...values, physicalDeviceId, ownTime ?? null, clock ?? null, receivedAt, isBuffered ? 1 : 0, fCnt ?? null, organizationId]);
  }
}

function readingOf(sensorId: string, row: ReadingRow): Reading {
  const { source_path: sourcePath, received_at: receivedAt } = row;
  const value = JSON.parse(row.value) as JsonValue;
  return { sensorId, sourcePath, value, ownTime: row.own_time ?? undefined, clock: row.clock ?? undefined, receivedAt, ...(row.buffered === 1 && { isBuffered: true }), fCnt: row.f_cnt ?? undefined };
}
