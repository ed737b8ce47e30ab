import type { Db, HotStatement } from '../../database';
import { hourOf, type Summary } from './hourSummary';

/** An hour of a series. */
export interface SummedHour extends Summary {
  /** Its beginning, Unix milliseconds. */
  readonly hour: number;
}

/** The statements of this repository, for the test of their plans. */
export const hourQueryStatements = {
  list: {
    name: 'readingHours.list',
    sql: () => `
      select h.hour, h.count, h.sum, h.min, h.max, h.first_time as "firstTime", h.first, h.last_time as "lastTime", h.last, h.area
      from reading_hours h where h.series = ? and h.hour >= ? and h.hour < ? order by h.hour limit ?`,
  },
  last: { name: 'readingHours.last', sql: () => 'select h.last_time as time, h.last as value from reading_hours h where h.series = ? and h.hour <= ? order by h.hour desc limit 2' },
  stale: { name: 'staleHours.list', sql: () => 'select s.hour from stale_hours s where s.series = ? and s.hour >= ? and s.hour < ? order by s.hour limit ?' },
} as const satisfies Record<string, HotStatement>;

/** Reads the hours that readings are summed up in. A series stands for its organization: its number was found by it. */
export class HourQueryRepository {
  constructor(private readonly db: Db) {}

  /** The next hours that begin at or after `from` and before `to`, in their order; at most `limit`. */
  async list(series: number, from: number, to: number, limit: number): Promise<SummedHour[]> {
    return await this.db.all<SummedHour>(hourQueryStatements.list, [series, from, to, limit]);
  }

  /** Which of these hours got another reading after they were summed up; as `list`. */
  async stale(series: number, from: number, to: number, limit: number): Promise<number[]> {
    const rows = await this.db.all<{ hour: number }>(hourQueryStatements.stale, [series, from, to, limit]);
    return rows.map(({ hour }) => hour);
  }

  /** The last value before a time, as far as the hours tell. */
  async findValueBefore(series: number, time: number): Promise<{ readonly time: number; readonly value: number } | undefined> {
    const rows = await this.db.all<{ time: number; value: number }>(hourQueryStatements.last, [series, hourOf(time - 1)]);
    return rows.find((row) => row.time < time);
  }
}
