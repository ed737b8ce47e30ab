import type { Db, PreparedStatement, SqlValue } from '../../database';
import type { SummedHour } from '../readings/hourQueryRepository';
import { HOUR_MS } from '../../kernel/timeUnits';

/** A series and its readings that are not summed up yet. Times are Unix milliseconds. */
export interface PendingSeries {
  readonly number: number;
  readonly sensorId: string;
  /** The time of the first reading that is not summed up; null if there is none. */
  readonly firstTime: number | null;
}

/** An hour that received readings after it was summed up. */
export interface StaleHour {
  readonly series: number;
  readonly hour: number;
  /** Whether numbers of the hour may already have been deleted, so that it cannot be summed up again. */
  readonly isDownsampled: boolean;
}

/** A reading to sum up; `num` is null if it is not a number. */
export interface ReadingToSum {
  readonly time: number;
  readonly position: number;
  readonly num: number | null;
}

/** A number that arrived after its hour was downsampled. */
interface LateNumber {
  readonly time: number;
  readonly position: number;
  readonly num: number;
}

/** The summary of an hour to write. */
export interface NewHour extends SummedHour {
  readonly series: number;
  /** The summary contains all readings of the hour up to this position. */
  readonly position: number;
}

const ROWS_PER_STATEMENT = 32;
const HOUR_COLUMNS = [
  'series',
  'hour',
  'count',
  'sum',
  'min',
  'max',
  'first_time',
  'first',
  'last_time',
  'last',
  'area',
  'position',
] as const;
const INTEGER_COLUMNS: ReadonlySet<string> = new Set([
  'series',
  'hour',
  'count',
  'first_time',
  'last_time',
  'position',
]);

/** Repeats the placeholders of a row for a statement with ROWS_PER_STATEMENT rows. */
function repeatRow(row: string): string {
  return Array.from({ length: ROWS_PER_STATEMENT }, () => `(${row})`).join(', ');
}

/**
 * The statements of this repository. Exported for the test of their query plans. Writing statements have 32 rows,
 * padded with nulls.
 */
export const hourSummaryStatements = {
  pending: {
    name: 'readingSeries.pending',
    sql: () => `
      select s.number, s.sensor_id as "sensorId",
        (select r.time from readings r where r.series = s.number and r.time >= s.summed_until and r.time < ? order by r.time limit 1) as "firstTime"
      from reading_series s where s.number > ? order by s.number limit ?`,
  },
  readings: {
    name: 'readings.toSum',
    sql: () =>
      'select r.time, r.position, r.num from readings r where r.series = ? and (r.time, r.position) > (?, ?) and r.time < ? order by r.time, r.position limit ?',
  },
  upsert: {
    name: 'readingHours.upsert',
    sql: () => `
      with summed (${HOUR_COLUMNS.join(', ')}) as (values ${repeatRow(HOUR_COLUMNS.map((column) => `cast(? as ${INTEGER_COLUMNS.has(column) ? 'bigint' : 'double precision'})`).join(', '))})
      insert into reading_hours (${HOUR_COLUMNS.join(', ')}) select ${HOUR_COLUMNS.join(', ')} from summed where series is not null
      on conflict (series, hour) do update set ${HOUR_COLUMNS.slice(2)
        .map((column) => `${column} = excluded.${column}`)
        .join(', ')}`,
  },
  advance: {
    name: 'readingSeries.advance',
    sql: () => `
      with summed (number, until) as (values ${repeatRow('cast(? as bigint), cast(? as bigint)')})
      update reading_series set summed_until = summed.until from summed where reading_series.number = summed.number and reading_series.summed_until < summed.until`,
  },
  stale: {
    name: 'staleHours.next',
    sql: () => `
      select t.series, t.hour, case when t.hour < s.thinned_until then 1 else 0 end as "isDownsampled"
      from stale_hours t join reading_series s on s.number = t.series where (t.series, t.hour) > (?, ?) order by t.series, t.hour limit ?`,
  },
  lock: {
    name: 'staleHours.lock',
    sql: (dialect) => `select t.hour from stale_hours t where t.series = ? and t.hour = ? ${dialect.forUpdate}`,
  },
  clearStale: {
    name: 'staleHours.clear',
    sql: () => `
      delete from stale_hours where series = ? and hour = ? and not exists (
        select 1 from readings r where r.series = ? and r.time >= ? and r.time < ? and r.position > ?)`,
  },
  delete: { name: 'readingHours.delete', sql: () => 'delete from reading_hours where series = ? and hour = ?' },
  find: {
    name: 'readingHours.find',
    sql: () =>
      'select h.series, h.position, h.hour, h.count, h.sum, h.min, h.max, h.first_time as "firstTime", h.first, h.last_time as "lastTime", h.last, h.area from reading_hours h where h.series = ? and h.hour = ?',
  },
  late: {
    name: 'readings.lateOfHour',
    // `position + 0` cannot use an index: the search must start from the time.
    sql: () =>
      'select r.time, r.position, r.num from readings r where r.series = ? and r.time >= ? and r.time < ? and r.position + 0 > ? and r.position + 0 <= ? and r.num is not null order by r.position limit ?',
  },
} as const satisfies Record<string, PreparedStatement>;

const STATEMENTS = hourSummaryStatements;

/**
 * Stores hourly summaries. Methods take a series number, which implies the organization. An hour that is already summed
 * up becomes stale when it receives further readings. The position of a reading is its place in the order of storage.
 */
export class HourSummaryRepository {
  constructor(private readonly db: Db) {}

  /**
   * Lists at most `limit` series with a number greater than `after`, with their first pending reading before `until`.
   */
  async listPending(after: number, until: number, limit: number): Promise<PendingSeries[]> {
    return await this.db.all<PendingSeries>(STATEMENTS.pending, [until, after, limit]);
  }

  /**
   * Lists at most `limit` readings of a series after a key and before the time `until`. With BEFORE_ALL_POSITIONS the
   * time of the key is inclusive.
   */
  async listReadings(
    series: number,
    after: Pick<ReadingToSum, 'time' | 'position'>,
    until: number,
    limit: number,
  ): Promise<ReadingToSum[]> {
    return await this.db.all<ReadingToSum>(STATEMENTS.readings, [series, after.time, after.position, until, limit]);
  }

  /** Writes summaries of hours and replaces existing ones. */
  async store(hours: readonly NewHour[]): Promise<void> {
    await this.writeRows(STATEMENTS.upsert, hours.map(toColumnValues), HOUR_COLUMNS.length);
  }

  /** Stores up to which time series are summed up. The time never decreases. */
  async advanceSummedUntil(summedUntilBySeries: ReadonlyMap<number, number>): Promise<void> {
    await this.writeRows(STATEMENTS.advance, [...summedUntilBySeries], 2); // two columns: series and time
  }

  /** Lists at most `limit` stale hours after the given one. */
  async listStale(after: Pick<StaleHour, 'series' | 'hour'>, limit: number): Promise<StaleHour[]> {
    const rows = await this.db.all<Omit<StaleHour, 'isDownsampled'> & { isDownsampled: number }>(STATEMENTS.stale, [
      after.series,
      after.hour,
      limit,
    ]);
    return rows.map((row) => ({ ...row, isDownsampled: row.isDownsampled === 1 }));
  }

  /**
   * Locks a stale hour: waits for transactions that store readings in it, and blocks further ones until the end of this
   * transaction.
   */
  async lock({ series, hour }: StaleHour): Promise<void> {
    await this.db.all(STATEMENTS.lock, [series, hour]);
  }

  /** Marks the hour as no longer stale, unless it received readings with a greater position. */
  async clearStale({ series, hour }: StaleHour, position: number): Promise<void> {
    await this.db.all(STATEMENTS.clearStale, [series, hour, series, hour, hour + HOUR_MS, position]);
  }

  /** Deletes the summary of an hour that has no numeric readings. */
  async delete({ series, hour }: StaleHour): Promise<void> {
    await this.db.all(STATEMENTS.delete, [series, hour]);
  }

  /** Returns the stored summary of an hour. */
  async find({ series, hour }: StaleHour): Promise<NewHour | undefined> {
    const [found] = await this.db.all<NewHour>(STATEMENTS.find, [series, hour]);
    return found;
  }

  /**
   * Lists at most `limit` numbers of an hour after the position `after`, up to and including the position `until`,
   * sorted by position.
   */
  async listLate({ series, hour }: StaleHour, after: number, until: number, limit: number): Promise<LateNumber[]> {
    return await this.db.all<LateNumber>(STATEMENTS.late, [series, hour, hour + HOUR_MS, after, until, limit]);
  }

  /** Writes rows with a statement of ROWS_PER_STATEMENT rows; unused rows are filled with nulls and write nothing. */
  private async writeRows(
    statement: PreparedStatement,
    rows: readonly (readonly SqlValue[])[],
    columnCount: number,
  ): Promise<void> {
    for (let start = 0; start < rows.length; start += ROWS_PER_STATEMENT) {
      const values = rows.slice(start, start + ROWS_PER_STATEMENT).flat();
      while (values.length < ROWS_PER_STATEMENT * columnCount) values.push(null);
      await this.db.all(statement, values);
    }
  }
}

/** Returns the values of a row, in the order of HOUR_COLUMNS. */
function toColumnValues(row: NewHour): SqlValue[] {
  return [
    row.series,
    row.hour,
    row.count,
    row.sum,
    row.min,
    row.max,
    row.firstTime,
    row.first,
    row.lastTime,
    row.last,
    row.area,
    row.position,
  ];
}
