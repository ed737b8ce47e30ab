import type { Db, HotStatement } from '../../database';
import { LATE_POSITIONS, POSITIONS_PER_MS } from './storedReading';

/** The series of readings of one sensor. */
export interface Series {
  readonly sensorId: string;
  readonly number: number;
  /** Hours before it are summed up, Unix milliseconds: another reading of theirs makes them stale. */
  readonly summedUntil: number;
}

const FIND: HotStatement = {
  name: 'readingSeries.find',
  sql: () => 'select s.sensor_id as "sensorId", s.number, s.summed_until as "summedUntil" from reading_series s where s.organization_id = ? and s.sensor_id = ?',
};

const CREATE: HotStatement = {
  name: 'readingSeries.create',
  // Another transaction may have made it meanwhile: then it is that one's.
  sql: () => `
    insert into reading_series (sensor_id, organization_id) values (?, ?)
    on conflict (sensor_id) do update set sensor_id = excluded.sensor_id returning sensor_id as "sensorId", number, summed_until as "summedUntil"`,
};

const LAST_POSITION: HotStatement = {
  name: 'readingSeries.lastPosition',
  // That of a series is late, or within two minutes of its last time.
  sql: () => `
    select max((select max(r.position) from readings r where r.series = s.number and abs(r.position - r.time * 1024) > ${LATE_POSITIONS})) as late,
      max((select max(r.position) from readings r where r.series = s.number and r.time >= (select max(l.time) from readings l where l.series = s.number) - ${(2 * LATE_POSITIONS) / POSITIONS_PER_MS})) as timely
    from reading_series s`,
};

/** The short numbers that the readings of sensors lie under. */
export class SeriesRepository {
  constructor(private readonly db: Db) {}

  /** The series of these sensors, which are the organization's; those that have none get one. Only inside a transaction. */
  async findOrCreate(organizationId: string, sensorIds: readonly string[]): Promise<Series[]> {
    const all: Series[] = [];
    // One order for all, so that two uplinks never wait for each other's rows.
    for (const sensorId of sensorIds.toSorted()) {
      const [found] = await this.db.all<Series>(FIND, [organizationId, sensorId]);
      const [series] = found ? [found] : await this.db.all<Series>(CREATE, [sensorId, organizationId]);
      if (series) all.push(series);
    }
    return all;
  }

  /** The greatest position of all readings of all organizations; 0 where there are none. Looks at each series once. */
  async lastPosition(): Promise<number> {
    const [row] = await this.db.all<{ late: number | null; timely: number | null }>(LAST_POSITION, []);
    return Math.max(row?.late ?? 0, row?.timely ?? 0);
  }

  /** Db.afterCommit. */
  afterCommit(action: () => void): void {
    this.db.afterCommit(action);
  }
}
