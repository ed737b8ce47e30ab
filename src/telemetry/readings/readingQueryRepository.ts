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

/** A reading without its text, which may be as long as an uplink: `readings` adds it. */
export interface ReadingHead extends ReadingPlace, Omit<ValueColumns, 'txt'> {
  readonly series: number;
  /** How long its text is, in bytes; null: it has none. */
  readonly size: number | null;
}

/** How many series `stored` looks through at once. */
export const SERIES_AT_ONCE = 64;
/** How many texts `readings` adds at once. */
export const TEXTS_AT_ONCE = 32;

interface TextRow extends ReadingPlace, ValueColumns {
  readonly series: number;
}

const ROW = 'r.series, r.time, r.position, r.kind, r.num, r.txt';
const HEAD = 'r.series, r.time, r.position, r.kind, r.num, octet_length(r.txt) as size';
const SERIES = Array.from({ length: SERIES_AT_ONCE }, () => '?').join(', ');
const PLACES = Array.from({ length: TEXTS_AT_ONCE }, () => '(cast(? as bigint), cast(? as bigint), cast(? as bigint))').join(', ');
const IS_LATE = `abs(r.position - r.time * 1024) > ${LATE_POSITIONS}`;
const AFTER = 'r.series = ? and (r.time, r.position) > (?, ?) and r.time < ?';
const BEFORE = 'r.series = ? and (r.time, r.position) < (?, ?) and r.time >= ?';

/** The statements of this repository, for the test of their plans. */
export const readingQueryStatements = {
  ascending: { name: 'readings.ascending', sql: () => `select ${HEAD} from readings r where ${AFTER} order by r.time, r.position limit ?` },
  descending: { name: 'readings.descending', sql: () => `select ${HEAD} from readings r where ${BEFORE} order by r.time desc, r.position desc limit ?` },
  numbers: { name: 'readings.numbers', sql: () => `select r.time, r.position, r.num from readings r where ${AFTER} and r.num is not null order by r.time, r.position limit ?` },
  texts: { name: 'readings.texts', sql: () => `select ${HEAD} from readings r where ${AFTER} and r.txt is not null order by r.time, r.position limit ?` },
  lastNumber: { name: 'readings.lastNumber', sql: () => 'select r.time, r.position, r.num from readings r where r.series = ? and r.time < ? and r.num is not null order by r.time desc, r.position desc limit 1' },
  lastText: { name: 'readings.lastText', sql: () => `select ${HEAD} from readings r where r.series = ? and r.time < ? and r.txt is not null order by r.time desc, r.position desc limit 1` },
  withTexts: {
    name: 'readings.withTexts',
    sql: () => `with wanted (series, time, position) as (values ${PLACES}) select ${ROW} from wanted w inner join readings r on r.series = w.series and r.time = w.time and r.position = w.position`,
  },
  stored: {
    name: 'readings.stored',
    // The index holds what is late, and nothing else; the others are found by their time.
    sql: () => `
      select r.series, r.time, r.position, r.kind, r.num, r.size from (
        select ${HEAD} from readings r where r.series in (${SERIES}) and r.time >= ? and r.time <= ? and r.position >= ? and r.position <= ? and not (${IS_LATE})
        union all
        select ${HEAD} from readings r where r.series in (${SERIES}) and r.position >= ? and r.position <= ? and ${IS_LATE}
      ) r where (r.position, r.series) > (?, ?) order by r.position, r.series limit ?`,
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
  async range({ series, from, to }: SeriesRange, order: 'asc' | 'desc', after: ReadingPlace | undefined, limit: number): Promise<ReadingHead[]> {
    const start = after ?? { time: order === 'asc' ? from : to, position: -1 };
    const statement = order === 'asc' ? readingQueryStatements.ascending : readingQueryStatements.descending;
    return await this.db.all<ReadingHead>(statement, [series, start.time, start.position, order === 'asc' ? to : from, limit]);
  }

  /** The next numbers of a range, oldest first. */
  async numbers({ series, from, to }: SeriesRange, after: ReadingPlace | undefined, limit: number): Promise<NumberSample[]> {
    return await this.db.all<NumberSample>(readingQueryStatements.numbers, [series, after?.time ?? from, after?.position ?? -1, to, limit]);
  }

  /** The next texts and JSON values of a range, oldest first. */
  async texts({ series, from, to }: SeriesRange, after: ReadingPlace | undefined, limit: number): Promise<ReadingHead[]> {
    return await this.db.all<ReadingHead>(readingQueryStatements.texts, [series, after?.time ?? from, after?.position ?? -1, to, limit]);
  }

  /** The last number before a time. */
  async findNumberBefore(series: number, time: number): Promise<NumberSample | undefined> {
    const [row] = await this.db.all<NumberSample>(readingQueryStatements.lastNumber, [series, time]);
    return row;
  }

  /** The last text or JSON value before a time. */
  async findTextBefore(series: number, time: number): Promise<ReadingHead | undefined> {
    const [row] = await this.db.all<ReadingHead>(readingQueryStatements.lastText, [series, time]);
    return row;
  }

  /** What was stored of at most SERIES_AT_ONCE series after a position and series, up to a position, in this order; at most `limit`. */
  async stored(series: readonly number[], after: { readonly position: number; readonly series: number }, until: number, limit: number): Promise<ReadingHead[]> {
    if (series.length === 0) return [];
    const asked = filledUp(series, SERIES_AT_ONCE, series[0] as number);
    const { position } = after;
    const times = [receivedAtOf(position - LATE_POSITIONS), receivedAtOf(until + LATE_POSITIONS)];
    return await this.db.all<ReadingHead>(readingQueryStatements.stored, [...asked, ...times, position, until, ...asked, position, until, position, after.series, limit]);
  }

  /** These readings with their values, in their order; what has been removed meanwhile is left out. At most TEXTS_AT_ONCE of them may have texts. */
  async readings(heads: readonly ReadingHead[], sensorOf: (series: number) => string): Promise<StoredReading[]> {
    const asked = heads.filter(({ size }) => size !== null);
    const places = filledUp<ReadingHead | undefined>(asked, TEXTS_AT_ONCE, undefined).flatMap((head) => [head?.series ?? null, head?.time ?? null, head?.position ?? null]);
    const rows = asked.length === 0 ? [] : await this.db.all<TextRow>(readingQueryStatements.withTexts, places);
    const found = new Map(rows.map((row) => [keyOf(row), row]));
    return heads.flatMap((head) => {
      const columns = head.size === null ? { ...head, txt: null } : found.get(keyOf(head));
      return columns ? [{ sensorId: sensorOf(head.series), time: head.time, position: head.position, ...valueOf(columns) }] : [];
    });
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

/** Statements of one length stay prepared. */
function filledUp<Item>(items: readonly Item[], length: number, filler: Item): Item[] {
  if (items.length > length) throw new RangeError(`at most ${length} at once, not ${items.length}`);
  return [...items, ...Array.from({ length: length - items.length }, () => filler)];
}

function keyOf({ series, time, position }: { readonly series: number } & ReadingPlace): string {
  return `${series}/${time}/${position}`;
}
