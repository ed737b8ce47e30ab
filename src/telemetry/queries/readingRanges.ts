import { setImmediate as othersTurn } from 'node:timers/promises';
import type { Database } from '../../database';
import type { Cursors } from '../../kernel/pages';
import { type AskedSensor, type ReadingPlace, ReadingQueryRepository, thinnedBefore } from '../readings/readingQueryRepository';
import type { StoredReading } from '../readings/storedReading';
import { readingPortions } from './readingPortions';
import { sizeOfReading } from './readingSize';

/** What is asked for; times in Unix milliseconds, `from` before `to`. */
export interface RangeQuery {
  readonly sensorIds: readonly string[];
  readonly from: number;
  readonly to: number;
  readonly order: 'asc' | 'desc';
  /** Undefined or 0: the default. */
  readonly pageSize: number | undefined;
  readonly pageToken: string;
}

/** One page. */
export interface RangePage {
  readonly readings: readonly StoredReading[];
  readonly nextPageToken: string;
  /** thinnedBefore of the sensors. */
  readonly thinnedBefore: number | undefined;
}

/** Where a page ended: the sensor, by its place in the request, and its last reading; without one the sensor begins with the next page. */
interface RangePosition extends Partial<ReadingPlace> {
  readonly sensor: number;
}

const DEFAULT_PAGE = 1000;
const LARGEST_PAGE = 5000;
const PORTION = 500;
// A text may be as long as an uplink: a page ends when it holds so many bytes as it is sent. Ordinary clients take 4 MiB.
const MOST_BYTES = 1024 * 1024;

/** Reads readings over a time. */
export class ReadingRanges {
  private readonly readings: ReadingQueryRepository;

  constructor(private readonly options: { readonly database: Database; readonly cursors: Cursors }) {
    this.readings = new ReadingQueryRepository(options.database.db);
  }

  /** Throws `sensor_not_found`, and `validation_failed` for a foreign page token. */
  async query(organizationId: string, query: RangeQuery, signal: AbortSignal): Promise<RangePage> {
    const list = [organizationId, 'readings', JSON.stringify([query.sensorIds, query.from, query.to, query.order])];
    const start = this.options.cursors.decode<RangePosition>(list, query.pageToken, 'pageToken') ?? { sensor: 0 };
    const sensors = await this.readings.sensors(organizationId, query.sensorIds);
    const thinned = thinnedBefore(sensors, query.from);
    const page = new PageOfReadings(Math.min(query.pageSize || DEFAULT_PAGE, LARGEST_PAGE));
    for (let at = start.sensor; at < sensors.length; at += 1) {
      const end = await this.take(sensors[at] as AskedSensor, query, at === start.sensor ? placeOf(start) : undefined, page, signal);
      if (end === 'done') continue;
      const position: RangePosition = { sensor: at, time: end.time, position: end.position };
      return { readings: page.items, nextPageToken: this.options.cursors.encode(list, position), thinnedBefore: thinned };
    }
    return { readings: page.items, nextPageToken: '', thinnedBefore: thinned };
  }

  /** Takes what there is of one sensor after a place; resolves to the last reading if the page is full and there is more. */
  private async take(sensor: AskedSensor, query: RangeQuery, after: ReadingPlace | undefined, page: PageOfReadings, signal: AbortSignal): Promise<'done' | ReadingPlace> {
    if (sensor.series === undefined) return 'done';
    const range = { sensorId: sensor.sensorId, series: sensor.series, from: query.from, to: query.to };
    let last = after;
    for (;;) {
      signal.throwIfAborted();
      const limit = Math.min(PORTION, page.room + 1);
      const heads = await this.readings.range(range, query.order, last, limit);
      for await (const portion of readingPortions(this.readings, heads, () => sensor.sensorId)) {
        for (const reading of portion) {
          if (page.isFull) return last ?? startOf(query);
          page.add(reading);
          last = reading;
        }
      }
      if (heads.length < limit) return 'done';
      last = heads.at(-1);
      await othersTurn();
    }
  }
}

/** Readings until there are enough of them. */
class PageOfReadings {
  readonly items: StoredReading[] = [];
  private bytes = 0;

  constructor(private readonly size: number) {}

  get room(): number {
    return this.size - this.items.length;
  }

  get isFull(): boolean {
    return this.room <= 0 || this.bytes >= MOST_BYTES;
  }

  add(reading: StoredReading): void {
    this.items.push(reading);
    this.bytes += sizeOfReading(reading);
  }
}

function placeOf({ time, position }: RangePosition): ReadingPlace | undefined {
  return time === undefined || position === undefined ? undefined : { time, position };
}

/** The place before the first reading of a range. */
function startOf({ order, from, to }: RangeQuery): ReadingPlace {
  return { time: order === 'asc' ? from : to, position: -1 };
}
