import type { Db, PreparedStatement } from '../../database';
import { toHour, type NumberSummary } from './hourSummary';

/** The summary of one hour of a series. */
export interface SummedHour extends NumberSummary {
  /** The start of the hour, Unix milliseconds. */
  readonly hour: number;
}

/** The statements of this repository. Exported for the test of their query plans. */
export const hourQueryStatements = {
  list: {
    name: 'readingHours.list',
    sql: () => `
      select h.hour, h.count, h.sum, h.min, h.max, h.first_time as "firstTime", h.first, h.last_time as "lastTime", h.last, h.area
      from reading_hours h where h.series = ? and h.hour >= ? and h.hour < ? order by h.hour limit ?`,
  },
  last: {
    name: 'readingHours.last',
    sql: () =>
      'select h.last_time as time, h.last as value from reading_hours h where h.series = ? and h.hour <= ? order by h.hour desc limit 2',
  },
  stale: {
    name: 'staleHours.list',
    sql: () =>
      'select s.hour from stale_hours s where s.series = ? and s.hour >= ? and s.hour < ? order by s.hour limit ?',
  },
} as const satisfies Record<string, PreparedStatement>;

/**
 * Reads hourly summaries. Methods take a series number instead of an organization id: the caller looked the number up
 * by sensor and organization, so it implies the organization.
 */
export class HourQueryRepository {
  constructor(private readonly db: Db) {}

  /** Lists at most `limit` hours that start at or after `from` and before `to`, in ascending order. */
  async list(series: number, from: number, to: number, limit: number): Promise<SummedHour[]> {
    return await this.db.all<SummedHour>(hourQueryStatements.list, [series, from, to, limit]);
  }

  /**
   * Lists at most `limit` starts of hours in the range (`from` inclusive, `to` exclusive) that received readings after
   * they were summed up, in ascending order.
   */
  async listStale(series: number, from: number, to: number, limit: number): Promise<number[]> {
    const rows = await this.db.all<{ hour: number }>(hourQueryStatements.stale, [series, from, to, limit]);
    return rows.map(({ hour }) => hour);
  }

  /**
   * Returns the last value before a time according to the hourly summaries; undefined if there is none. Reads two
   * hours, because the last value of the hour that contains the time may be at or after the time.
   */
  async findValueBefore(
    series: number,
    time: number,
  ): Promise<{ readonly time: number; readonly value: number } | undefined> {
    const rows = await this.db.all<{ time: number; value: number }>(hourQueryStatements.last, [
      series,
      toHour(time - 1),
    ]);
    return rows.find((row) => row.time < time); // the newest hour comes first
  }
}
