import type { Db, PreparedStatement } from '../../database';
import { toHour } from '../readings/hourSummary';
import { BEFORE_ALL_POSITIONS, LATE_POSITIONS, POSITIONS_PER_MS } from '../readings/storedReading';
import type { ReadingKey } from '../readings/readingQueryRepository';
import type { RetentionDays } from './readingTimes';
import { HOUR_MS } from '../../kernel/timeUnits';

/** A series and the age of its rows. Times are Unix milliseconds; null if there are no such rows. */
export interface AgingSeries extends RetentionDays {
  readonly number: number;
  readonly sensorId: string;
  /** The same sensor id; null if the sensor is deleted. */
  readonly existingSensorId: string | null;
  /** The end of the hours that are summed up. */
  readonly summedUntil: number;
  /** The end of the downsampled hours, of which queries use the summaries. */
  readonly downsampledUntil: number;
  readonly oldestReading: number | null;
  readonly oldestHour: number | null;
  /**
   * The time of the oldest reading that downsampling may not have processed. The search starts one hour before
   * `downsampledUntil`, which is set before the last hour is processed.
   */
  readonly oldestNotDownsampled: number | null;
  /** The position of the first late reading (see buildIsLate) that downsampling has not processed. */
  readonly oldestLatePosition: number | null;
}

/** The result of one step: the number of deleted rows, and the key at which to continue; undefined when all is done. */
export interface RemovalResult {
  readonly rows: number;
  readonly next: ReadingKey | undefined;
}

/** The SQL condition for a late reading: its time and the time of its storage differ by more than a minute. */
const buildIsLate = (table: string): string =>
  `abs(${table}.position - ${table}.time * ${POSITIONS_PER_MS}) > ${LATE_POSITIONS}`;

/** The statements of this repository. Exported for the test of their query plans. */
export const readingRemovalStatements = {
  aging: {
    name: 'readingSeries.aging',
    sql: () => `
      select s.number, s.sensor_id as "sensorId", s.summed_until as "summedUntil", s.thinned_until as "downsampledUntil",
        o.reading_retention_days as "retentionDays", o.thin_readings_after_days as "downsampleAfterDays", (select e.id from sensors e where e.id = s.sensor_id) as "existingSensorId",
        (select r.time from readings r where r.series = s.number order by r.time limit 1) as "oldestReading",
        (select h.hour from reading_hours h where h.series = s.number order by h.hour limit 1) as "oldestHour",
        (select r.time from readings r where r.series = s.number and r.time >= s.thinned_until - ${HOUR_MS} order by r.time limit 1) as "oldestNotDownsampled",
        (select r.position from readings r where r.series = s.number and r.position > (s.thinned_until - ${HOUR_MS}) * ${POSITIONS_PER_MS} and ${buildIsLate('r')} order by r.position limit 1) as "oldestLatePosition"
      from reading_series s join organizations o on o.id = s.organization_id where s.number > ? order by s.number limit ?`,
  },
  ofOrganization: {
    name: 'readingSeries.ofOrganization',
    sql: () =>
      'select s.number, s.sensor_id as "sensorId" from reading_series s where s.organization_id = ? and s.number > ? order by s.number limit ?',
  },
  boundary: {
    name: 'readings.boundary',
    sql: () =>
      'select r.time, r.position from readings r where r.series = ? and (r.time, r.position) >= (?, ?) and r.time < ? order by r.time, r.position limit 1 offset ?',
  },
  remove: {
    name: 'readings.remove',
    sql: () => 'delete from readings where series = ? and (time, position) < (?, ?) returning 1 as one',
  },
  downsample: {
    name: 'readings.downsample',
    // `position + 0` cannot use an index: the search must start from the time.
    sql: () =>
      'delete from readings where series = ? and (time, position) >= (?, ?) and (time, position) < (?, ?) and num is not null and position + 0 <= ? returning 1 as one',
  },
  lateBoundary: {
    name: 'readings.lateBoundary',
    sql: () =>
      `select r.time, r.position from readings r where r.series = ? and r.position > ? and r.position <= ? and ${buildIsLate('r')} order by r.position limit 1 offset ?`,
  },
  downsampleLate: {
    name: 'readings.downsampleLate',
    // `time + 0` cannot use an index: the search must start from the position, in the index readings_late.
    sql: () => `
      delete from readings where series = ? and position > ? and position <= ? and ${buildIsLate('readings')} and time + 0 < ? and num is not null
        and exists (select 1 from reading_hours h where h.series = readings.series and h.hour = readings.time - readings.time % ${HOUR_MS} and h.position >= readings.position) returning 1 as one`,
  },
  hourBoundary: {
    name: 'readingHours.boundary',
    sql: () => 'select h.hour from reading_hours h where h.series = ? and h.hour < ? order by h.hour limit 1 offset ?',
  },
  removeHours: {
    name: 'readingHours.remove',
    sql: () => 'delete from reading_hours where series = ? and hour < ? returning 1 as one',
  },
  firstStale: {
    name: 'staleHours.first',
    sql: () => 'select min(t.hour) as hour from stale_hours t where t.series = ? and t.hour >= ?',
  },
  downsampled: {
    name: 'readingSeries.downsampled',
    sql: () => 'update reading_series set thinned_until = ? where number = ? and thinned_until < ?',
  },
  removeStale: { name: 'staleHours.remove', sql: () => 'delete from stale_hours where series = ?' },
  removeSeries: {
    name: 'readingSeries.remove',
    sql: () =>
      'delete from reading_series where number = ? and not exists (select 1 from readings r where r.series = ?) returning 1 as one',
  },
  // Finds in each table the first series number in a gap: rows of a series that was deleted with its organization.
  orphaned: {
    name: 'readings.orphaned',
    sql: () => `
      select min(found.series) as series from (
        select min(r.series) as series from readings r where r.series > ? and r.series < ?
        union all select min(h.series) from reading_hours h where h.series > ? and h.series < ?
        union all select min(t.series) from stale_hours t where t.series > ? and t.series < ?) found`,
  },
  exists: { name: 'readingSeries.exists', sql: () => 'select s.number from reading_series s where s.number = ?' },
} as const satisfies Record<string, PreparedStatement>;

const STATEMENTS = readingRemovalStatements;

/**
 * Deletes expired readings, a limited number of rows at a time. Methods take a series number, which implies the
 * organization.
 */
export class ReadingRemovalRepository {
  constructor(private readonly db: Db) {}

  /** Lists at most `limit` series of all organizations with a number greater than `after`. */
  async listAging(after: number, limit: number): Promise<AgingSeries[]> {
    return await this.db.all<AgingSeries>(STATEMENTS.aging, [after, limit]);
  }

  /** Lists at most `limit` series of an organization with a number greater than `after`. */
  async listOfOrganization(
    organizationId: string,
    after: number,
    limit: number,
  ): Promise<Pick<AgingSeries, 'number' | 'sensorId'>[]> {
    return await this.db.all<Pick<AgingSeries, 'number' | 'sensorId'>>(STATEMENTS.ofOrganization, [
      organizationId,
      after,
      limit,
    ]);
  }

  /** Deletes at most `limit` readings of a series before a time, oldest first. */
  async removeReadings(series: number, before: number, limit: number): Promise<RemovalResult> {
    const next = await this.findBoundary(series, { time: 0, position: BEFORE_ALL_POSITIONS }, before, limit);
    const rows = await this.db.all(STATEMENTS.remove, [
      series,
      next?.time ?? before,
      next?.position ?? BEFORE_ALL_POSITIONS,
    ]);
    return { rows: rows.length, next };
  }

  /** Deletes at most `limit` hours of a series that start before a time, oldest first. */
  async removeHours(series: number, before: number, limit: number): Promise<RemovalResult> {
    const [next] = await this.db.all<{ hour: number }>(STATEMENTS.hourBoundary, [series, before, limit]);
    const rows = await this.db.all(STATEMENTS.removeHours, [series, next?.hour ?? before]);
    return { rows: rows.length, next: next && { time: next.hour, position: BEFORE_ALL_POSITIONS } };
  }

  /**
   * Downsamples a series: processes its next `limit` readings from a key on, in the order of time, and deletes the
   * numbers among them, whose hourly summaries remain. Stops at `before` (the start of an hour) and at the first stale
   * hour: only the hours before it are completely summed up. Numbers with a position beyond `maxPosition` are kept.
   */
  async downsample(
    series: number,
    from: ReadingKey,
    before: number,
    maxPosition: number,
    limit: number,
  ): Promise<RemovalResult> {
    const [stale] = await this.db.all<{ hour: number | null }>(STATEMENTS.firstStale, [series, toHour(from.time)]);
    const end = Math.min(before, stale?.hour ?? before);
    if (from.time >= end) return { rows: 0, next: undefined };
    const next = await this.findBoundary(series, from, end, limit);
    const until = next ? toHour(next.time) + HOUR_MS : end;
    // Set before the first number of the hour is deleted: from then on, queries must use the summary of the hour.
    await this.db.all(STATEMENTS.downsampled, [until, series, until]);
    const rows = await this.db.all(STATEMENTS.downsample, [
      series,
      from.time,
      from.position,
      next?.time ?? end,
      next?.position ?? BEFORE_ALL_POSITIONS,
      maxPosition,
    ]);
    return { rows: rows.length, next };
  }

  /**
   * Downsamples late readings: processes the next `limit` late readings of a series after the position `afterPosition`
   * and up to `maxPosition`, in the order of position. Deletes the numbers among them whose time is before `before` and
   * that the summary of their hour already contains.
   */
  async downsampleLate(
    series: number,
    afterPosition: number,
    before: number,
    maxPosition: number,
    limit: number,
  ): Promise<RemovalResult> {
    // The last one of the next `limit` late readings; undefined if there are fewer, so that these are the last ones.
    const [last] = await this.db.all<ReadingKey>(STATEMENTS.lateBoundary, [
      series,
      afterPosition,
      maxPosition,
      limit - 1,
    ]);
    const rows = await this.db.all(STATEMENTS.downsampleLate, [
      series,
      afterPosition,
      last?.position ?? maxPosition,
      before,
    ]);
    return { rows: rows.length, next: last };
  }

  /** Deletes a series without readings, and its stale-hour marks. */
  async removeSeries(series: number): Promise<RemovalResult> {
    await this.db.all(STATEMENTS.removeStale, [series]);
    const rows = await this.db.all(STATEMENTS.removeSeries, [series, series]);
    return { rows: rows.length, next: undefined };
  }

  /**
   * Returns the first number between two that has rows but no series, because the series was deleted with its
   * organization; undefined if there is none.
   */
  async findOrphanedSeries(after: number, before: number): Promise<number | undefined> {
    const [found] = await this.db.all<{ series: number | null }>(STATEMENTS.orphaned, [
      after,
      before,
      after,
      before,
      after,
      before,
    ]);
    const series = found?.series ?? undefined;
    if (series === undefined) return undefined;
    const [existing] = await this.db.all(STATEMENTS.exists, [series]); // the series may have been created meanwhile
    return existing ? undefined : series;
  }

  /**
   * Returns the key of the reading that follows the next `limit` readings; undefined if there are not so many before
   * `before`.
   */
  private async findBoundary(
    series: number,
    from: ReadingKey,
    before: number,
    limit: number,
  ): Promise<ReadingKey | undefined> {
    const [found] = await this.db.all<ReadingKey>(STATEMENTS.boundary, [
      series,
      from.time,
      from.position,
      before,
      limit,
    ]);
    return found;
  }
}
