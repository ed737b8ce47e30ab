import type { Db, HotStatement } from '../../database';
import { notFound } from '../../kernel/errors';
import type { ValueType } from '../../sensorTemplates';
import { LATE_POSITIONS, receivedAtOf, valueOf, type StoredReading, type ValueColumns } from './storedReading';

/** A sensor that is asked for, with where its readings lie. */
export interface AskedSensor {
  readonly sensorId: string;
  readonly deviceId: string;
  /** The value type of its template now; readings keep the one that they were stored with. */
  readonly valueType: ValueType;
  /** The number of its series; undefined: it never showed anything. */
  readonly series: number | undefined;
  /** Hours before it are summed up, but stale ones; Unix milliseconds. */
  readonly summedUntil: number;
  /** Hours before it may be all that is left of their numbers; Unix milliseconds. */
  readonly thinnedUntil: number;
}

/** A place among the readings of a series, in the order of their times. */
export interface ReadingPlace {
  /** Unix milliseconds. */
  readonly time: number;
  readonly position: number;
}

/** A stretch of one series. */
export interface SeriesRange {
  readonly sensorId: string;
  readonly series: number;
  /** Inclusive, Unix milliseconds. */
  readonly from: number;
  /** Exclusive, Unix milliseconds. */
  readonly to: number;
}

/** One number of a series. */
export interface NumberSample extends ReadingPlace {
  readonly num: number;
}

interface ReadingRow extends ReadingPlace, ValueColumns {}

const ROW = 'r.time, r.position, r.kind, r.num, r.txt';
const IS_LATE = `abs(r.position - r.time * 1024) > ${LATE_POSITIONS}`;
const AFTER = 'r.series = ? and (r.time, r.position) > (?, ?) and r.time < ?';
const BEFORE = 'r.series = ? and (r.time, r.position) < (?, ?) and r.time >= ?';

/** The statements of this repository, for the test of their plans. */
export const readingQueryStatements = {
  ascending: { name: 'readings.ascending', sql: () => `select ${ROW} from readings r where ${AFTER} order by r.time, r.position limit ?` },
  descending: { name: 'readings.descending', sql: () => `select ${ROW} from readings r where ${BEFORE} order by r.time desc, r.position desc limit ?` },
  numbers: { name: 'readings.numbers', sql: () => `select r.time, r.position, r.num from readings r where ${AFTER} and r.num is not null order by r.time, r.position limit ?` },
  texts: { name: 'readings.texts', sql: () => `select ${ROW} from readings r where ${AFTER} and r.txt is not null order by r.time, r.position limit ?` },
  lastNumber: { name: 'readings.lastNumber', sql: () => 'select r.time, r.position, r.num from readings r where r.series = ? and r.time < ? and r.num is not null order by r.time desc, r.position desc limit 1' },
  lastText: { name: 'readings.lastText', sql: () => `select ${ROW} from readings r where r.series = ? and r.time < ? and r.txt is not null order by r.time desc, r.position desc limit 1` },
  stored: {
    name: 'readings.stored',
    // The index holds what is late, and nothing else; the others are found by their time.
    sql: () => `
      select ${ROW} from (
        select ${ROW} from readings r where r.series = ? and r.time >= ? and r.time <= ? and r.position > ? and r.position <= ? and not (${IS_LATE})
        union all
        select ${ROW} from readings r where r.series = ? and r.position > ? and r.position <= ? and ${IS_LATE}
      ) r order by r.position limit ?`,
  },
} as const satisfies Record<string, HotStatement>;

/** Reads readings. A series stands for its organization: its number was found by it. */
export class ReadingQueryRepository {
  constructor(private readonly db: Db) {}

  /** These sensors, in this order. Throws `sensor_not_found`. */
  async sensors(organizationId: string, sensorIds: readonly string[]): Promise<AskedSensor[]> {
    const rows: AskedSensor[] = await this.query(organizationId).whereIn('s.id', [...sensorIds]);
    const found = new Map(rows.map((row) => [row.sensorId, row]));
    return sensorIds.map((id) => {
      const sensor = found.get(id);
      if (!sensor) throw notFound('sensor', id);
      return { ...sensor, series: sensor.series ?? undefined, summedUntil: sensor.summedUntil ?? 0, thinnedUntil: sensor.thinnedUntil ?? 0 };
    });
  }

  /** The next page of a range after a place, undefined for the first one; at most `limit`. */
  async range(range: SeriesRange, order: 'asc' | 'desc', after: ReadingPlace | undefined, limit: number): Promise<StoredReading[]> {
    const { series, from, to, sensorId } = range;
    const start = after ?? { time: order === 'asc' ? from : to, position: -1 };
    const statement = order === 'asc' ? readingQueryStatements.ascending : readingQueryStatements.descending;
    const rows = await this.db.all<ReadingRow>(statement, [series, start.time, start.position, order === 'asc' ? to : from, limit]);
    return rows.map((row) => readingOf(sensorId, row));
  }

  /** The next numbers of a range, oldest first. */
  async numbers({ series, from, to }: SeriesRange, after: ReadingPlace | undefined, limit: number): Promise<NumberSample[]> {
    return await this.db.all<NumberSample>(readingQueryStatements.numbers, [series, after?.time ?? from, after?.position ?? -1, to, limit]);
  }

  /** The next texts and JSON values of a range, oldest first. */
  async texts({ series, from, to, sensorId }: SeriesRange, after: ReadingPlace | undefined, limit: number): Promise<StoredReading[]> {
    const rows = await this.db.all<ReadingRow>(readingQueryStatements.texts, [series, after?.time ?? from, after?.position ?? -1, to, limit]);
    return rows.map((row) => readingOf(sensorId, row));
  }

  /** The last number before a time. */
  async findNumberBefore(series: number, time: number): Promise<NumberSample | undefined> {
    const [row] = await this.db.all<NumberSample>(readingQueryStatements.lastNumber, [series, time]);
    return row;
  }

  /** The last text or JSON value before a time. */
  async findTextBefore(sensorId: string, series: number, time: number): Promise<StoredReading | undefined> {
    const [row] = await this.db.all<ReadingRow>(readingQueryStatements.lastText, [series, time]);
    return row && readingOf(sensorId, row);
  }

  /** What was stored of a series after a position, up to another, in this order; at most `limit`. */
  async stored(sensorId: string, series: number, after: number, until: number, limit: number): Promise<StoredReading[]> {
    const rows = await this.db.all<ReadingRow>(readingQueryStatements.stored, [series, receivedAtOf(after - LATE_POSITIONS), receivedAtOf(until + LATE_POSITIONS), after, until, series, after, until, limit]);
    return rows.map((row) => readingOf(sensorId, row));
  }

  private query(organizationId: string) {
    return this.db
      .knex('sensors as s')
      .innerJoin('sensor_templates as t', 't.id', 's.sensor_template_id')
      .leftJoin('reading_series as n', 'n.sensor_id', 's.id')
      .where('s.organization_id', organizationId)
      .select({ sensorId: 's.id', deviceId: 's.device_id', valueType: 't.value_type', series: 'n.number', summedUntil: 'n.summed_until', thinnedUntil: 'n.thinned_until' });
  }
}

/** From when on all readings of these sensors are there, if some of a stretch that begins at `from` may be thinned to hours. */
export function thinnedBefore(sensors: readonly AskedSensor[], from: number): number | undefined {
  const until = Math.max(0, ...sensors.map(({ thinnedUntil }) => thinnedUntil));
  return until > from ? until : undefined;
}

function readingOf(sensorId: string, row: ReadingRow): StoredReading {
  return { sensorId, time: row.time, position: row.position, ...valueOf(row) };
}
