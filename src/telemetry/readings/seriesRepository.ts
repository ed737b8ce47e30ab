import type { Db, PreparedStatement } from '../../database';
import { LATE_POSITIONS, POSITIONS_PER_MS } from './storedReading';

/** The series of one sensor: the number under which its readings are stored. */
export interface Series {
  readonly sensorId: string;
  readonly number: number;
  /** Hours before this time are summed up, so a new reading in them marks them as stale. Unix milliseconds. */
  readonly summedUntil: number;
}

const FIND: PreparedStatement = {
  name: 'readingSeries.find',
  sql: () =>
    'select s.sensor_id as "sensorId", s.number, s.summed_until as "summedUntil" from reading_series s where s.organization_id = ? and s.sensor_id = ?',
};

const CREATE: PreparedStatement = {
  name: 'readingSeries.create',
  // Returns the existing row if another transaction created the series in the meantime.
  sql: () => `
    insert into reading_series (sensor_id, organization_id) values (?, ?)
    on conflict (sensor_id) do update set sensor_id = excluded.sensor_id returning sensor_id as "sensorId", number, summed_until as "summedUntil"`,
};

const LAST_POSITION: PreparedStatement = {
  name: 'readingSeries.lastPosition',
  // The last position of a series belongs to a late reading or to a reading of its last two minutes.
  sql: () => `
    select max((select max(r.position) from readings r where r.series = s.number and abs(r.position - r.time * ${POSITIONS_PER_MS}) > ${LATE_POSITIONS})) as late,
      max((select max(r.position) from readings r where r.series = s.number and r.time >= (select max(l.time) from readings l where l.series = s.number) - ${(2 * LATE_POSITIONS) / POSITIONS_PER_MS})) as timely
    from reading_series s`,
};

/** Stores series: the number of each sensor, under which its readings are stored. */
export class SeriesRepository {
  constructor(private readonly db: Db) {}

  /**
   * Returns the series of these sensors of the organization and creates missing ones. Must run inside a transaction.
   */
  async findOrCreate(organizationId: string, sensorIds: readonly string[]): Promise<Series[]> {
    const all: Series[] = [];
    // Rows are always written in the same order, so that two uplinks cannot deadlock.
    for (const sensorId of sensorIds.toSorted()) {
      const [existing] = await this.db.all<Series>(FIND, [organizationId, sensorId]);
      const [series] = existing ? [existing] : await this.db.all<Series>(CREATE, [sensorId, organizationId]);
      if (series) all.push(series);
    }
    return all;
  }

  /**
   * Returns the greatest position of all readings of all organizations; 0 without readings. Reads every series once:
   * its last position is that of a late reading (found by the index of late readings) or of a reading of its last
   * minutes.
   */
  async findLastPosition(): Promise<number> {
    const [row] = await this.db.all<{ late: number | null; timely: number | null }>(LAST_POSITION, []);
    return Math.max(row?.late ?? 0, row?.timely ?? 0);
  }

  /** Runs an action after the commit of the current transaction. */
  afterCommit(action: () => void): void {
    this.db.afterCommit(action);
  }
}
