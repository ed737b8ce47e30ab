import type { Db, PreparedStatement } from '../../database';
import { notFound } from '../../kernel/errors';
import type { ValueType } from '../../sensorTemplates';
import {
  BEFORE_ALL_POSITIONS,
  LATE_POSITIONS,
  POSITIONS_PER_MS,
  getReceivedAt,
  getTimeSource,
  getValue,
  type StoredReading,
  type ValueColumns,
} from './storedReading';

/** A sensor in a query, with its series. */
export interface QueriedSensor {
  readonly sensorId: string;
  readonly deviceId: string;
  /** The current value type of its template. Readings keep the type with which they were stored. */
  readonly valueType: ValueType;
  /** The number of its series; undefined if it has no readings. */
  readonly series: number | undefined;
  /** Hours before this time are summed up, except stale ones. Unix milliseconds. */
  readonly summedUntil: number;
  /** Before this time, the single numbers may be deleted and only the hourly summaries exist. Unix milliseconds. */
  readonly downsampledUntil: number;
}

/** The key of a reading in its series: readings are sorted by time, then by position. */
export interface ReadingKey {
  /** Unix milliseconds. */
  readonly time: number;
  readonly position: number;
}

/** A time range of one series. */
interface SeriesRange {
  readonly series: number;
  /** Inclusive, Unix milliseconds. */
  readonly from: number;
  /** Exclusive, Unix milliseconds. */
  readonly to: number;
}

/** One number of a series. */
export interface NumberSample extends ReadingKey {
  readonly num: number;
}

/** A reading without its text, which can be as long as an uplink. `loadReadings` adds the text. */
export interface ReadingHead extends ReadingKey, Omit<ValueColumns, 'txt'> {
  readonly series: number;
  /** The column `time_source`. */
  readonly timeSource: number | null;
  /** The size of its text in bytes; null for a reading without a text. */
  readonly size: number | null;
}

/** The maximum number of series per call of `listStored`. */
export const SERIES_BATCH_SIZE = 64;
/** The maximum number of texts per call of `loadReadings`. */
export const TEXT_BATCH_SIZE = 32;

interface TextRow extends ReadingKey, ValueColumns {
  readonly series: number;
}

// The columns of a reading, with and without its text.
const ROW = 'r.series, r.time, r.position, r.kind, r.num, r.txt';
const HEAD = 'r.series, r.time, r.position, r.kind, r.num, r.time_source as "timeSource", octet_length(r.txt) as size';
const SERIES = Array.from({ length: SERIES_BATCH_SIZE }, () => '?').join(', ');
const KEY_ROWS = Array.from(
  { length: TEXT_BATCH_SIZE },
  () => '(cast(? as bigint), cast(? as bigint), cast(? as bigint))',
).join(', ');
// The same expression as in the partial index readings_late, so that the engines use the index.
const IS_LATE = `abs(r.position - r.time * ${POSITIONS_PER_MS}) > ${LATE_POSITIONS}`;
// The readings of a series after and before a key (exclusive), up to a time.
const AFTER = 'r.series = ? and (r.time, r.position) > (?, ?) and r.time < ?';
const BEFORE = 'r.series = ? and (r.time, r.position) < (?, ?) and r.time >= ?';

/** The statements of this repository. Exported for the test of their query plans. */
export const readingQueryStatements = {
  ascending: {
    name: 'readings.ascending',
    sql: () => `select ${HEAD} from readings r where ${AFTER} order by r.time, r.position limit ?`,
  },
  descending: {
    name: 'readings.descending',
    sql: () => `select ${HEAD} from readings r where ${BEFORE} order by r.time desc, r.position desc limit ?`,
  },
  numbers: {
    name: 'readings.numbers',
    sql: () =>
      `select r.time, r.position, r.num from readings r where ${AFTER} and r.num is not null order by r.time, r.position limit ?`,
  },
  texts: {
    name: 'readings.texts',
    sql: () =>
      `select ${HEAD} from readings r where ${AFTER} and r.txt is not null order by r.time, r.position limit ?`,
  },
  lastNumber: {
    name: 'readings.lastNumber',
    sql: () =>
      'select r.time, r.position, r.num from readings r where r.series = ? and r.time < ? and r.num is not null order by r.time desc, r.position desc limit 1',
  },
  lastText: {
    name: 'readings.lastText',
    sql: () =>
      `select ${HEAD} from readings r where r.series = ? and r.time < ? and r.txt is not null order by r.time desc, r.position desc limit 1`,
  },
  withTexts: {
    name: 'readings.withTexts',
    sql: () =>
      `with wanted (series, time, position) as (values ${KEY_ROWS}) select ${ROW} from wanted w inner join readings r on r.series = w.series and r.time = w.time and r.position = w.position`,
  },
  stored: {
    name: 'readings.stored',
    // The partial index readings_late contains exactly the late readings. All others are found by their time.
    sql: () => `
      select r.series, r.time, r.position, r.kind, r.num, r."timeSource", r.size from (
        select ${HEAD} from readings r where r.series in (${SERIES}) and r.time >= ? and r.time <= ? and r.position >= ? and r.position <= ? and not (${IS_LATE})
        union all
        select ${HEAD} from readings r where r.series in (${SERIES}) and r.position >= ? and r.position <= ? and ${IS_LATE}
      ) r where (r.position, r.series) > (?, ?) order by r.position, r.series limit ?`,
  },
} as const satisfies Record<string, PreparedStatement>;

/**
 * Reads readings. The readings of a sensor are stored under the number of its series, and ordered by time, then by
 * position (the order in which they were stored); this pair is their key. Methods take a series number instead of an
 * organization id: the caller looked the number up by sensor and organization, so it implies the organization.
 */
export class ReadingQueryRepository {
  constructor(private readonly db: Db) {}

  /** Returns these sensors in the given order. Throws `sensor_not_found`. */
  async getSensors(organizationId: string, sensorIds: readonly string[]): Promise<QueriedSensor[]> {
    const sensors = await this.findSensors(organizationId, sensorIds);
    return sensorIds.map((id) => {
      const sensor = sensors.get(id);
      if (!sensor) throw notFound('sensor', id);
      return sensor;
    });
  }

  /** Returns these sensors by id; those that do not exist are absent. */
  async findSensors(organizationId: string, sensorIds: readonly string[]): Promise<Map<string, QueriedSensor>> {
    const rows: QueriedSensor[] = await this.querySensors(organizationId).whereIn('s.id', [...sensorIds]);
    // Without readings there is no series, and these columns are null.
    const sensors = rows.map((row) => ({
      ...row,
      series: row.series ?? undefined,
      summedUntil: row.summedUntil ?? 0,
      downsampledUntil: row.downsampledUntil ?? 0,
    }));
    return new Map(sensors.map((sensor) => [sensor.sensorId, sensor]));
  }

  /**
   * Lists at most `limit` readings of a range that follow the key `after` in this order; all without it. `from` is
   * inclusive and `to` is exclusive in both orders, because the start key comes before all readings at its time.
   */
  async listRange(
    { series, from, to }: SeriesRange,
    order: 'asc' | 'desc',
    after: ReadingKey | undefined,
    limit: number,
  ): Promise<ReadingHead[]> {
    const start = after ?? { time: order === 'asc' ? from : to, position: BEFORE_ALL_POSITIONS };
    const statement = order === 'asc' ? readingQueryStatements.ascending : readingQueryStatements.descending;
    return await this.db.all<ReadingHead>(statement, [
      series,
      start.time,
      start.position,
      order === 'asc' ? to : from,
      limit,
    ]);
  }

  /** Lists at most `limit` numbers of a range after a key, oldest first. */
  async listNumbers(
    { series, from, to }: SeriesRange,
    after: ReadingKey | undefined,
    limit: number,
  ): Promise<NumberSample[]> {
    return await this.db.all<NumberSample>(readingQueryStatements.numbers, [
      series,
      after?.time ?? from,
      after?.position ?? BEFORE_ALL_POSITIONS,
      to,
      limit,
    ]);
  }

  /** Lists at most `limit` strings and JSON values of a range after a key, oldest first. */
  async listTexts(
    { series, from, to }: SeriesRange,
    after: ReadingKey | undefined,
    limit: number,
  ): Promise<ReadingHead[]> {
    return await this.db.all<ReadingHead>(readingQueryStatements.texts, [
      series,
      after?.time ?? from,
      after?.position ?? BEFORE_ALL_POSITIONS,
      to,
      limit,
    ]);
  }

  /** Returns the last number before a time. */
  async findNumberBefore(series: number, time: number): Promise<NumberSample | undefined> {
    const [row] = await this.db.all<NumberSample>(readingQueryStatements.lastNumber, [series, time]);
    return row;
  }

  /** Returns the last string or JSON value before a time. */
  async findTextBefore(series: number, time: number): Promise<ReadingHead | undefined> {
    const [row] = await this.db.all<ReadingHead>(readingQueryStatements.lastText, [series, time]);
    return row;
  }

  /**
   * Lists at most `limit` readings of at most SERIES_BATCH_SIZE series in the order in which they were stored, by
   * position and series: after `after`, up to and including the position `until`. Readings are found by their time,
   * late ones (their time and position differ by more than a minute) by an index of positions.
   */
  async listStored(
    series: readonly number[],
    after: { readonly position: number; readonly series: number },
    until: number,
    limit: number,
  ): Promise<ReadingHead[]> {
    if (series.length === 0) return [];
    const paddedSeries = padToLength(series, SERIES_BATCH_SIZE, series[0] as number);
    const { position } = after;
    // A position contains the receive time, from which the time of a reading that is not late differs by one minute at
    // most.
    const timeRange = [getReceivedAt(position - LATE_POSITIONS), getReceivedAt(until + LATE_POSITIONS)];
    return await this.db.all<ReadingHead>(readingQueryStatements.stored, [
      ...paddedSeries,
      ...timeRange,
      position,
      until,
      ...paddedSeries,
      position,
      until,
      position,
      after.series,
      limit,
    ]);
  }

  /**
   * Returns these readings with their values, in the given order: a head has its number, but its text is read here.
   * Readings with a text that were deleted in the meantime are omitted. At most TEXT_BATCH_SIZE of them may have texts.
   */
  async loadReadings(heads: readonly ReadingHead[], getSensorId: (series: number) => string): Promise<StoredReading[]> {
    const withText = heads.filter(({ size }) => size !== null);
    const keys = padToLength<ReadingHead | undefined>(withText, TEXT_BATCH_SIZE, undefined).flatMap((head) => [
      head?.series ?? null,
      head?.time ?? null,
      head?.position ?? null,
    ]);
    const rows = withText.length === 0 ? [] : await this.db.all<TextRow>(readingQueryStatements.withTexts, keys);
    const rowByKey = new Map(rows.map((row) => [formatKey(row), row]));
    return heads.flatMap((head) => {
      const columns = head.size === null ? { ...head, txt: null } : rowByKey.get(formatKey(head));
      if (!columns) return [];
      const { series, time, position, timeSource } = head;
      return [
        { sensorId: getSensorId(series), time, timeSource: getTimeSource(timeSource), position, ...getValue(columns) },
      ];
    });
  }

  /**
   * Builds the query for QueriedSensor; callers add a condition on the sensors. Columns of a missing series are null.
   */
  private querySensors(organizationId: string) {
    return this.db
      .knex('sensors as s')
      .innerJoin('sensor_templates as t', 't.id', 's.sensor_template_id')
      .leftJoin('reading_series as n', 'n.sensor_id', 's.id')
      .where('s.organization_id', organizationId)
      .select({
        sensorId: 's.id',
        deviceId: 's.device_id',
        valueType: 't.value_type',
        series: 'n.number',
        summedUntil: 'n.summed_until',
        downsampledUntil: 'n.thinned_until',
      });
  }
}

/**
 * Returns the time before which readings of these sensors may be downsampled to hours; undefined if that is not after
 * `from`, the start of the queried range.
 */
export function getDownsampledBefore(sensors: readonly QueriedSensor[], from: number): number | undefined {
  const until = Math.max(0, ...sensors.map(({ downsampledUntil }) => downsampledUntil));
  return until > from ? until : undefined;
}

/** Pads a list, so that the statement always has the same number of parameters and stays prepared. */
function padToLength<Item>(items: readonly Item[], length: number, filler: Item): Item[] {
  if (items.length > length) throw new RangeError(`too many items: at most ${length} (got ${items.length})`);
  return [...items, ...Array.from({ length: length - items.length }, () => filler)];
}

/** Formats a key as text, so that a Map can use it, for example `7/1700000000000/1740800000000000`. */
function formatKey({ series, time, position }: { readonly series: number } & ReadingKey): string {
  return `${series}/${time}/${position}`;
}
