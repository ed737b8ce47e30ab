import type { Db, HotStatement, SqlValue } from '../../database';
import type { SummedHour } from '../readings/hourQueryRepository';
import { HOUR_MS } from '../readings/hourSummary';

/** A series and what of it waits to be summed up. Times are Unix milliseconds. */
export interface WaitingSeries {
  readonly number: number;
  readonly sensorId: string;
  readonly summedUntil: number;
  /** Of the first reading that waits; null if none does. */
  readonly firstTime: number | null;
}

/** An hour that got readings after it was summed up. */
export interface StaleHour {
  readonly series: number;
  readonly hour: number;
  /** Whether numbers of the hour may be gone, so that it cannot be summed up anew. */
  readonly isThinned: boolean;
}

/** A reading; `num` is null for one that is no number. */
export interface SummedReading {
  readonly time: number;
  readonly position: number;
  readonly num: number | null;
}

/** A number that came after its hour was thinned. */
export interface LateNumber {
  readonly time: number;
  readonly position: number;
  readonly num: number;
}

/** An hour of a series, to be written. */
export interface NewHour extends SummedHour {
  readonly series: number;
  /** All readings of the hour up to it are in its sums. */
  readonly position: number;
}

const ROWS = 32;
const HOUR_COLUMNS = ['series', 'hour', 'count', 'sum', 'min', 'max', 'first_time', 'first', 'last_time', 'last', 'area', 'position'] as const;
const WHOLE: ReadonlySet<string> = new Set(['series', 'hour', 'count', 'first_time', 'last_time', 'position']);

function rowsOf(row: string): string {
  return Array.from({ length: ROWS }, () => `(${row})`).join(', ');
}

/** The statements of this repository, for the test of their plans. Those that write take 32 rows, filled up with nulls. */
export const hourSummaryStatements = {
  waiting: {
    name: 'readingSeries.waiting',
    sql: () => `
      select s.number, s.sensor_id as "sensorId", s.summed_until as "summedUntil",
        (select r.time from readings r where r.series = s.number and r.time >= s.summed_until and r.time < ? order by r.time limit 1) as "firstTime"
      from reading_series s where s.number > ? order by s.number limit ?`,
  },
  readings: {
    name: 'readings.toSum',
    sql: () => 'select r.time, r.position, r.num from readings r where r.series = ? and (r.time, r.position) > (?, ?) and r.time < ? order by r.time, r.position limit ?',
  },
  upsert: {
    name: 'readingHours.upsert',
    sql: () => `
      with summed (${HOUR_COLUMNS.join(', ')}) as (values ${rowsOf(HOUR_COLUMNS.map((column) => `cast(? as ${WHOLE.has(column) ? 'bigint' : 'double precision'})`).join(', '))})
      insert into reading_hours (${HOUR_COLUMNS.join(', ')}) select ${HOUR_COLUMNS.join(', ')} from summed where series is not null
      on conflict (series, hour) do update set ${HOUR_COLUMNS.slice(2).map((column) => `${column} = excluded.${column}`).join(', ')}`,
  },
  advance: {
    name: 'readingSeries.advance',
    sql: () => `
      with summed (number, until) as (values ${rowsOf('cast(? as bigint), cast(? as bigint)')})
      update reading_series set summed_until = summed.until from summed where reading_series.number = summed.number and reading_series.summed_until < summed.until`,
  },
  stale: {
    name: 'staleHours.next',
    sql: () => `
      select t.series, t.hour, case when t.hour < s.thinned_until then 1 else 0 end as "isThinned"
      from stale_hours t join reading_series s on s.number = t.series where (t.series, t.hour) > (?, ?) order by t.series, t.hour limit ?`,
  },
  hold: { name: 'staleHours.hold', sql: (dialect) => `select t.hour from stale_hours t where t.series = ? and t.hour = ? ${dialect.forUpdate}` },
  settle: {
    name: 'staleHours.settle',
    sql: () => `
      delete from stale_hours where series = ? and hour = ? and not exists (
        select 1 from readings r where r.series = ? and r.time >= ? and r.time < ? and r.position > ?)`,
  },
  drop: { name: 'readingHours.drop', sql: () => 'delete from reading_hours where series = ? and hour = ?' },
  find: {
    name: 'readingHours.find',
    sql: () => 'select h.series, h.position, h.hour, h.count, h.sum, h.min, h.max, h.first_time as "firstTime", h.first, h.last_time as "lastTime", h.last, h.area from reading_hours h where h.series = ? and h.hour = ?',
  },
  late: {
    name: 'readings.lateOfHour',
    sql: () => 'select r.time, r.position, r.num from readings r where r.series = ? and r.time >= ? and r.time < ? and r.position + 0 > ? and r.position + 0 <= ? and r.num is not null order by r.position limit ?',
  },
} as const satisfies Record<string, HotStatement>;

const ALL = hourSummaryStatements;

/** Sums up readings by hours. A series stands for its organization. */
export class HourSummaryRepository {
  constructor(private readonly db: Db) {}

  /** The next series after a number, and whether readings of theirs before `until` wait; at most `limit`. */
  async waiting(after: number, until: number, limit: number): Promise<WaitingSeries[]> {
    return await this.db.all<WaitingSeries>(ALL.waiting, [until, after, limit]);
  }

  /** The next readings after a place (inclusive from a time with position -1), before a time. */
  async readings(series: number, after: Pick<SummedReading, 'time' | 'position'>, until: number, limit: number): Promise<SummedReading[]> {
    return await this.db.all<SummedReading>(ALL.readings, [series, after.time, after.position, until, limit]);
  }

  /** Writes hours, over those that are there. */
  async store(hours: readonly NewHour[]): Promise<void> {
    await this.inRows(ALL.upsert, hours.map(valuesOf), HOUR_COLUMNS.length);
  }

  /** Says up to where series are summed up, never backwards. */
  async advance(until: ReadonlyMap<number, number>): Promise<void> {
    await this.inRows(ALL.advance, [...until], 2);
  }

  /** The next stale hours after one; at most `limit`. */
  async stale(after: Pick<StaleHour, 'series' | 'hour'>, limit: number): Promise<StaleHour[]> {
    const rows = await this.db.all<Omit<StaleHour, 'isThinned'> & { isThinned: number }>(ALL.stale, [after.series, after.hour, limit]);
    return rows.map((row) => ({ ...row, isThinned: row.isThinned === 1 }));
  }

  /** Waits for readings that are being stored in this stale hour, and keeps further ones waiting until the end of the transaction. */
  async hold({ series, hour }: StaleHour): Promise<void> {
    await this.db.all(ALL.hold, [series, hour]);
  }

  /** The hour is no longer stale, unless it got readings with a greater position. */
  async settle({ series, hour }: StaleHour, position: number): Promise<void> {
    await this.db.all(ALL.settle, [series, hour, series, hour, hour + HOUR_MS, position]);
  }

  /** Removes an hour that has no numbers. */
  async drop({ series, hour }: StaleHour): Promise<void> {
    await this.db.all(ALL.drop, [series, hour]);
  }

  /** An hour as it was summed up. */
  async find({ series, hour }: StaleHour): Promise<NewHour | undefined> {
    const [found] = await this.db.all<NewHour>(ALL.find, [series, hour]);
    return found;
  }

  /** The next numbers of an hour after one position, up to another, in the order in which they were stored; at most `limit`. */
  async late({ series, hour }: StaleHour, after: number, until: number, limit: number): Promise<LateNumber[]> {
    return await this.db.all<LateNumber>(ALL.late, [series, hour, hour + HOUR_MS, after, until, limit]);
  }

  private async inRows(statement: HotStatement, rows: readonly (readonly SqlValue[])[], columns: number): Promise<void> {
    for (let at = 0; at < rows.length; at += ROWS) {
      const values = rows.slice(at, at + ROWS).flat();
      while (values.length < ROWS * columns) values.push(null);
      await this.db.all(statement, values);
    }
  }
}

function valuesOf(row: NewHour): SqlValue[] {
  return [row.series, row.hour, row.count, row.sum, row.min, row.max, row.firstTime, row.first, row.lastTime, row.last, row.area, row.position];
}
