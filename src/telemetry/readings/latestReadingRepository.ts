import type { Db, PreparedStatement, SqlValue } from '../../database';
import type { Reading, SampleTimes } from '../../executions';
import type { JsonValue } from '../../kernel/jsonValue';
import { toTimeSourceColumn } from './storedReading';

interface ReadingRow {
  readonly sensor_id: string;
  readonly source_path: string;
  readonly value: string;
  readonly own_time: number | null;
  readonly clock: string | null;
  readonly received_at: number;
  readonly buffered: number;
  readonly f_cnt: number | null;
  readonly dev_addr: string | null;
}

/** The value of the column `buffered` for a reading of a retained message; otherwise it is 1 for a buffered one, or 0. */
export const RETAINED = 2;

/** The value of a sensor in an uplink. */
type NewSensorValue = Pick<Reading, 'sensorId' | 'sourcePath' | 'value'>;

const FIND: PreparedStatement = {
  name: 'latestReadings.find',
  // Values of another physical device or another source path are ignored.
  sql: () => `
    select r.sensor_id, r.source_path, r.value, r.own_time, r.clock, r.received_at, r.buffered, r.f_cnt, r.dev_addr from latest_readings r
    where r.organization_id = ? and r.physical_device_id = ? and r.sensor_id = ?
      and exists (select 1 from sensor_mappings m where m.organization_id = r.organization_id and m.sensor_id = r.sensor_id and m.source_path = r.source_path)`,
};

// The number of rows of a statement is a power of two (1, 2, 4, … 512). So at most 10 statements stay prepared, instead
// of one for each number of sensors. Unused rows are filled with nulls and store nothing.
const MAX_ROWS = 512;
const STORE_BY_ROW_COUNT = new Map<number, PreparedStatement>();
for (let rowCount = 1; rowCount <= MAX_ROWS; rowCount *= 2)
  STORE_BY_ROW_COUNT.set(rowCount, buildStoreStatement(rowCount));

/** Builds the statement that stores the latest readings of at most `rowCount` sensors of one uplink. */
function buildStoreStatement(rowCount: number): PreparedStatement {
  const placeholders = '(cast(? as text), cast(? as text), cast(? as text))';
  return {
    name: `latestReadings.store${rowCount}`,
    // Compares with the stored reading in SQL, because another transaction may have stored one in the meantime: the
    // order rule of `LatestReadingRepository.store`. A null sensor id of an unused row joins no sensor.
    sql: () => `
      with sample (sensor_id, source_path, value) as (values ${Array.from({ length: rowCount }, () => placeholders).join(', ')})
      insert into latest_readings (sensor_id, organization_id, physical_device_id, source_path, value, own_time, time_source, clock, received_at, buffered, f_cnt, dev_addr)
      select s.id, s.organization_id, cast(? as text), sample.source_path, sample.value, cast(? as bigint), cast(? as smallint), cast(? as text), cast(? as double precision), cast(? as smallint), cast(? as bigint), cast(? as text)
      from sample cross join sensors s where s.id = sample.sensor_id and s.organization_id = ?
      on conflict (sensor_id) do update set physical_device_id = excluded.physical_device_id, source_path = excluded.source_path, value = excluded.value,
        own_time = excluded.own_time, time_source = excluded.time_source, clock = excluded.clock, received_at = excluded.received_at, buffered = excluded.buffered, f_cnt = excluded.f_cnt, dev_addr = excluded.dev_addr
      where latest_readings.physical_device_id <> excluded.physical_device_id or latest_readings.source_path <> excluded.source_path
        or case when latest_readings.own_time <= latest_readings.received_at and excluded.own_time is not null and excluded.clock = latest_readings.clock
        then excluded.own_time >= latest_readings.own_time else excluded.received_at >= latest_readings.received_at end`,
  };
}

/** Stores the latest reading of each sensor. Assumes sensors of `organizationId`. */
export class LatestReadingRepository {
  constructor(private readonly db: Db) {}

  /**
   * Returns the latest readings by sensor id. Omits sensors without a reading, and readings of another physical device
   * or of a source path that is no longer mapped to the sensor.
   */
  async find(
    organizationId: string,
    physicalDeviceId: string,
    sensorIds: readonly string[],
  ): Promise<Map<string, Reading>> {
    const readingBySensor = new Map<string, Reading>();
    for (const sensorId of new Set(sensorIds)) {
      const [row] = await this.db.all<ReadingRow>(FIND, [organizationId, physicalDeviceId, sensorId]);
      if (row) readingBySensor.set(sensorId, toReading(sensorId, row));
    }
    return readingBySensor;
  }

  /**
   * Stores the readings of one uplink: at most 512, of different sensors. A reading replaces the stored one of its
   * sensor if it is newer. If both have a device time from the same clock, the later device time is newer, unless
   * the stored device time was in the future when it arrived. In all other cases the later arrival is newer. A stored
   * reading of another physical device or source path is always replaced. Must run inside a transaction.
   */
  async store(
    organizationId: string,
    physicalDeviceId: string,
    { deviceTime, timeSource, clock, receivedAt, isBuffered, isRetained, fCnt, devAddr }: SampleTimes,
    readings: readonly NewSensorValue[],
  ): Promise<void> {
    if (readings.length === 0) return;
    const rowCount = 2 ** Math.ceil(Math.log2(readings.length)); // the next power of two, for which a statement exists
    const statement = STORE_BY_ROW_COUNT.get(rowCount);
    if (!statement)
      throw new RangeError(`too many readings in an uplink: at most ${MAX_ROWS} (got ${readings.length})`);
    const values: SqlValue[] = readings.flatMap(({ sensorId, sourcePath, value }) => [
      sensorId,
      sourcePath,
      JSON.stringify(value),
    ]);
    for (let row = readings.length; row < rowCount; row++) values.push(null, null, null); // unused rows
    await this.db.all(statement, [
      ...values,
      physicalDeviceId,
      deviceTime ?? null,
      toTimeSourceColumn(timeSource),
      clock ?? null,
      receivedAt,
      isRetained ? RETAINED : Number(isBuffered === true),
      fCnt ?? null,
      devAddr ?? null,
      organizationId,
    ]);
  }
}

/** Converts a row to a reading. Null columns become undefined. */
function toReading(sensorId: string, row: ReadingRow): Reading {
  const { source_path: sourcePath, received_at: receivedAt } = row;
  const value = JSON.parse(row.value) as JsonValue;
  return {
    sensorId,
    sourcePath,
    value,
    deviceTime: row.own_time ?? undefined,
    clock: row.clock ?? undefined,
    receivedAt,
    ...(row.buffered !== 0 && { isBuffered: true }),
    ...(row.buffered === RETAINED && { isRetained: true }),
    fCnt: row.f_cnt ?? undefined,
    devAddr: row.dev_addr ?? undefined,
  };
}
