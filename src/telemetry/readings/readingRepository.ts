import type { Db, HotStatement, SqlValue } from '../../database';
import { hourOf } from './hourSummary';
import type { Series } from './seriesRepository';
import { columnsOf, type StoredReading } from './storedReading';

/** A reading and the series that it goes to. */
export interface NewReading {
  readonly series: Series;
  readonly reading: StoredReading;
}

const MOST = 512;

// A statement for each power of two, filled up with nulls, so that few statements stay prepared whatever devices send.
const INSERTS = new Map<number, HotStatement>();
for (let rows = 1; rows <= MOST; rows *= 2) INSERTS.set(rows, insertOf(rows));

function insertOf(rows: number): HotStatement {
  const row = '(cast(? as bigint), cast(? as bigint), cast(? as bigint), cast(? as smallint), cast(? as double precision), cast(? as text))';
  return {
    name: `readings.insert${rows}`,
    sql: () => `
      with sample (series, time, position, kind, num, txt) as (values ${Array.from({ length: rows }, () => row).join(', ')})
      insert into readings (series, time, position, kind, num, txt) select series, time, position, kind, num, txt from sample where series is not null
      on conflict (series, time, position) do update set kind = excluded.kind, num = excluded.num, txt = excluded.txt`,
  };
}

const MARK_STALE: HotStatement = {
  name: 'readings.markStale',
  // Writes where there is one, too: whoever sums that hour up anew waits until this reading is on disk.
  sql: () => 'insert into stale_hours (series, hour) values (?, ?) on conflict (series, hour) do update set hour = excluded.hour',
};

const NOTHING: readonly SqlValue[] = [null, null, null, null, null, null];

/** Stores readings. A series stands for its organization: its number was found by it. */
export class ReadingRepository {
  constructor(private readonly db: Db) {}

  /**
   * Stores the readings of one uplink, at most 512; of two with the same series, time and position the later one. Hours that are summed up
   * already become stale. Only inside a transaction.
   */
  async store(readings: readonly NewReading[]): Promise<void> {
    if (readings.length === 0) return;
    const size = 2 ** Math.ceil(Math.log2(readings.length));
    const statement = INSERTS.get(size);
    if (!statement) throw new RangeError(`an uplink stores at most ${MOST} readings, not ${readings.length}`);
    // One order for all, so that two uplinks never wait for each other's rows.
    const sorted = readings.toSorted((one, other) => one.series.number - other.series.number);
    const values = sorted.flatMap(valuesOf);
    for (let row = sorted.length; row < size; row++) values.push(...NOTHING);
    await this.db.all(statement, values);
    for (const { series, reading } of sorted) {
      if (reading.time < series.summedUntil) await this.db.all(MARK_STALE, [series.number, hourOf(reading.time)]);
    }
  }
}

function valuesOf({ series, reading }: NewReading): SqlValue[] {
  const { kind, num, txt } = columnsOf(reading.valueType, reading.value);
  return [series.number, reading.time, reading.position, kind, num, txt];
}
