import type { Db, HotStatement } from '../../database';
import { HOUR_MS, hourOf } from '../readings/hourSummary';
import { LATE_POSITIONS, POSITIONS_PER_MS } from '../readings/storedReading';
import type { RetentionDays } from './readingTimes';

/** A series and how old what it holds is. Times are Unix milliseconds; null where there is nothing. */
export interface AgingSeries extends RetentionDays {
  readonly number: number;
  readonly sensorId: string;
  /** Null: the sensor is deleted. */
  readonly sensor: string | null;
  readonly summedUntil: number;
  readonly thinnedUntil: number;
  readonly oldestReading: number | null;
  readonly oldestHour: number | null;
  /** Of the readings that thinning has not yet looked at, and of one hour before. */
  readonly oldestUnthinned: number | null;
  /** The position of the first of the late readings that thinning has not yet looked at. */
  readonly oldestLate: number | null;
}

/** A place among the readings of a series. */
export interface Place {
  readonly time: number;
  readonly position: number;
}

/** What one step removed; `next` is where the step after it goes on, undefined once all is done. */
export interface Removed {
  readonly rows: number;
  readonly next: Place | undefined;
}

const isLate = (table: string): string => `abs(${table}.position - ${table}.time * 1024) > ${LATE_POSITIONS}`;

/** The statements of this repository, for the test of their plans. */
export const readingRemovalStatements = {
  aging: {
    name: 'readingSeries.aging',
    sql: () => `
      select s.number, s.sensor_id as "sensorId", s.summed_until as "summedUntil", s.thinned_until as "thinnedUntil",
        o.reading_retention_days as "retentionDays", o.thin_readings_after_days as "thinAfterDays", (select x.id from sensors x where x.id = s.sensor_id) as sensor,
        (select r.time from readings r where r.series = s.number order by r.time limit 1) as "oldestReading",
        (select h.hour from reading_hours h where h.series = s.number order by h.hour limit 1) as "oldestHour",
        (select r.time from readings r where r.series = s.number and r.time >= s.thinned_until - ${HOUR_MS} order by r.time limit 1) as "oldestUnthinned",
        (select r.position from readings r where r.series = s.number and r.position > (s.thinned_until - ${HOUR_MS}) * ${POSITIONS_PER_MS} and ${isLate('r')} order by r.position limit 1) as "oldestLate"
      from reading_series s join organizations o on o.id = s.organization_id where s.number > ? order by s.number limit ?`,
  },
  ofOrganization: {
    name: 'readingSeries.ofOrganization',
    sql: () => 'select s.number, s.sensor_id as "sensorId" from reading_series s where s.organization_id = ? and s.number > ? order by s.number limit ?',
  },
  boundary: {
    name: 'readings.boundary',
    sql: () => 'select r.time, r.position from readings r where r.series = ? and (r.time, r.position) >= (?, ?) and r.time < ? order by r.time, r.position limit 1 offset ?',
  },
  remove: { name: 'readings.remove', sql: () => 'delete from readings where series = ? and (time, position) < (?, ?) returning 1 as one' },
  thin: {
    name: 'readings.thin',
    sql: () => 'delete from readings where series = ? and (time, position) >= (?, ?) and (time, position) < (?, ?) and num is not null and position + 0 <= ? returning 1 as one',
  },
  lateBoundary: {
    name: 'readings.lateBoundary',
    sql: () => `select r.time, r.position from readings r where r.series = ? and r.position > ? and r.position <= ? and ${isLate('r')} order by r.position limit 1 offset ?`,
  },
  thinLate: {
    name: 'readings.thinLate',
    sql: () => `
      delete from readings where series = ? and position > ? and position <= ? and ${isLate('readings')} and time + 0 < ? and num is not null
        and exists (select 1 from reading_hours h where h.series = readings.series and h.hour = readings.time - readings.time % ${HOUR_MS} and h.position >= readings.position) returning 1 as one`,
  },
  hourBoundary: { name: 'readingHours.boundary', sql: () => 'select h.hour from reading_hours h where h.series = ? and h.hour < ? order by h.hour limit 1 offset ?' },
  removeHours: { name: 'readingHours.remove', sql: () => 'delete from reading_hours where series = ? and hour < ? returning 1 as one' },
  firstStale: {
    name: 'staleHours.first',
    sql: () => 'select min(t.hour) as hour from stale_hours t where t.series = ? and t.hour >= ?',
  },
  thinned: { name: 'readingSeries.thinned', sql: () => 'update reading_series set thinned_until = ? where number = ? and thinned_until < ?' },
  removeStale: { name: 'staleHours.remove', sql: () => 'delete from stale_hours where series = ?' },
  removeSeries: {
    name: 'readingSeries.remove',
    sql: () => 'delete from reading_series where number = ? and not exists (select 1 from readings r where r.series = ?) returning 1 as one',
  },
  // Of each table the first series in a gap between two numbers: what is left of one that went with its organization.
  stray: {
    name: 'readings.stray',
    sql: () => `
      select min(found.series) as series from (
        select min(r.series) as series from readings r where r.series > ? and r.series < ?
        union all select min(h.series) from reading_hours h where h.series > ? and h.series < ?
        union all select min(t.series) from stale_hours t where t.series > ? and t.series < ?) found`,
  },
  exists: { name: 'readingSeries.exists', sql: () => 'select s.number from reading_series s where s.number = ?' },
} as const satisfies Record<string, HotStatement>;

const ALL = readingRemovalStatements;

/** Removes readings that are no longer kept, so many rows at a time. A series stands for its organization. */
export class ReadingRemovalRepository {
  constructor(private readonly db: Db) {}

  /** The next series of all organizations after a number; at most `limit`. */
  async aging(after: number, limit: number): Promise<AgingSeries[]> {
    return await this.db.all<AgingSeries>(ALL.aging, [after, limit]);
  }

  /** The next series of an organization after a number; at most `limit`. */
  async ofOrganization(organizationId: string, after: number, limit: number): Promise<Pick<AgingSeries, 'number' | 'sensorId'>[]> {
    return await this.db.all<Pick<AgingSeries, 'number' | 'sensorId'>>(ALL.ofOrganization, [organizationId, after, limit]);
  }

  /** Removes the oldest readings of a series, at most `limit`, none that is as new as `before`. */
  async removeReadings(series: number, before: number, limit: number): Promise<Removed> {
    const next = await this.boundary(series, { time: 0, position: -1 }, before, limit);
    const rows = await this.db.all(ALL.remove, [series, next?.time ?? before, next?.position ?? -1]);
    return { rows: rows.length, next };
  }

  /** Removes the oldest hours of a series that begin before a time, at most `limit`. */
  async removeHours(series: number, before: number, limit: number): Promise<Removed> {
    const [next] = await this.db.all<{ hour: number }>(ALL.hourBoundary, [series, before, limit]);
    const rows = await this.db.all(ALL.removeHours, [series, next?.hour ?? before]);
    return { rows: rows.length, next: next && { time: next.hour, position: -1 } };
  }

  /**
   * Looks at the next `limit` readings of a series from a place on and removes the numbers among them, as far as their hours are all summed
   * up: before `before` (the beginning of an hour), and before the first one that is stale. `position`: all readings up to it are on disk.
   */
  async thin(series: number, from: Place, before: number, position: number, limit: number): Promise<Removed> {
    const [stale] = await this.db.all<{ hour: number | null }>(ALL.firstStale, [series, hourOf(from.time)]);
    const end = Math.min(before, stale?.hour ?? before);
    if (from.time >= end) return { rows: 0, next: undefined };
    const next = await this.boundary(series, from, end, limit);
    const until = next ? hourOf(next.time) + HOUR_MS : end;
    await this.db.all(ALL.thinned, [until, series, until]); // with the first number that is gone from an hour, not with the last
    const rows = await this.db.all(ALL.thin, [series, from.time, from.position, next?.time ?? end, next?.position ?? -1, position]);
    return { rows: rows.length, next };
  }

  /**
   * Looks at the next `limit` late readings of a series after a place, in the order in which they were stored up to a position, and removes the numbers
   * among them whose hours begin before `before`, are thinned and count them.
   */
  async thinLate(series: number, from: Place, before: number, position: number, limit: number): Promise<Removed> {
    const [last] = await this.db.all<Place>(ALL.lateBoundary, [series, from.position, position, limit - 1]);
    const rows = await this.db.all(ALL.thinLate, [series, from.position, last?.position ?? position, before]);
    return { rows: rows.length, next: last };
  }

  /** Removes a series that has no readings any more, with what is known of its hours. */
  async removeSeries(series: number): Promise<Removed> {
    await this.db.all(ALL.removeStale, [series]);
    const rows = await this.db.all(ALL.removeSeries, [series, series]);
    return { rows: rows.length, next: undefined };
  }

  /** The first number between two that has readings or hours but is that of no series; undefined if there is none. */
  async findStray(after: number, before: number): Promise<number | undefined> {
    const [found] = await this.db.all<{ series: number | null }>(ALL.stray, [after, before, after, before, after, before]);
    const series = found?.series ?? undefined;
    if (series === undefined) return undefined;
    const [known] = await this.db.all(ALL.exists, [series]); // it may have come since the numbers were read
    return known ? undefined : series;
  }

  private async boundary(series: number, from: Place, before: number, limit: number): Promise<Place | undefined> {
    const [found] = await this.db.all<Place>(ALL.boundary, [series, from.time, from.position, before, limit]);
    return found;
  }
}
