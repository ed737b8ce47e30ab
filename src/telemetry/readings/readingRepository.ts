import type { Db, PreparedStatement, SqlValue } from '../../database';
import { toHour } from './hourSummary';
import type { Series } from './seriesRepository';
import { toColumns, toTimeSourceColumn, type StoredReading } from './storedReading';

/** A reading to store and its series. */
export interface NewReading {
  readonly series: Series;
  readonly reading: StoredReading;
}

const MAX_INSERT_ROWS = 512;

// The number of rows of a statement is a power of two (1, 2, 4, … 512). So at most 10 statements stay prepared, instead
// of one for each number of readings. Unused rows are filled with nulls and store nothing.
const INSERT_BY_ROW_COUNT = new Map<number, PreparedStatement>();
for (let rowCount = 1; rowCount <= MAX_INSERT_ROWS; rowCount *= 2)
  INSERT_BY_ROW_COUNT.set(rowCount, buildInsertStatement(rowCount));

/** Builds the statement that stores at most `rowCount` readings. */
function buildInsertStatement(rowCount: number): PreparedStatement {
  const placeholders =
    '(cast(? as bigint), cast(? as bigint), cast(? as bigint), cast(? as smallint), cast(? as double precision), cast(? as text))';
  return {
    name: `readings.insert${rowCount}`,
    sql: () => `
      with new_readings (series, time, position, kind, num, txt) as (values ${Array.from({ length: rowCount }, () => placeholders).join(', ')})
      insert into readings (series, time, position, kind, num, txt, time_source)
      select series, time, position, kind, num, txt, cast(? as smallint) from new_readings where series is not null
      on conflict (series, time, position) do update set kind = excluded.kind, num = excluded.num, txt = excluded.txt, time_source = excluded.time_source`,
  };
}

const MARK_STALE: PreparedStatement = {
  name: 'readings.markStale',
  // Also updates an existing row, so that a recalculation of the hour waits for the row lock until this reading is on
  // disk.
  sql: () =>
    'insert into stale_hours (series, hour) values (?, ?) on conflict (series, hour) do update set hour = excluded.hour',
};

const EMPTY_ROW: readonly SqlValue[] = [null, null, null, null, null, null];

/**
 * Stores readings. A reading belongs to the series of its sensor. It has no organization id: the caller has looked the
 * series up in the organization.
 */
export class ReadingRepository {
  constructor(private readonly db: Db) {}

  /**
   * Stores the readings of one uplink, at most 512, whose times all have the same source. A reading replaces an earlier
   * one with the same series, time and position (its place in the order of storage). Marks hours that already have a
   * summary as stale, so that it is calculated again. Must run inside a transaction.
   */
  async store(readings: readonly NewReading[]): Promise<void> {
    if (readings.length === 0) return;
    const rowCount = 2 ** Math.ceil(Math.log2(readings.length)); // the next power of two, for which a statement exists
    const statement = INSERT_BY_ROW_COUNT.get(rowCount);
    if (!statement)
      throw new RangeError(`too many readings in an uplink: at most ${MAX_INSERT_ROWS} (got ${readings.length})`);
    // Rows are always written in the same order, so that two uplinks cannot deadlock.
    const sorted = readings.toSorted((left, right) => left.series.number - right.series.number);
    const values = sorted.flatMap(listValues);
    for (let row = sorted.length; row < rowCount; row++) values.push(...EMPTY_ROW);
    await this.db.all(statement, [...values, toTimeSourceColumn(readings[0]?.reading.timeSource)]);
    for (const { series, reading } of sorted) {
      if (reading.time < series.summedUntil) await this.db.all(MARK_STALE, [series.number, toHour(reading.time)]);
    }
  }
}

/** Returns the values of a row, in the column order of the statement. */
function listValues({ series, reading }: NewReading): SqlValue[] {
  const { kind, num, txt } = toColumns(reading.valueType, reading.value);
  return [series.number, reading.time, reading.position, kind, num, txt];
}
