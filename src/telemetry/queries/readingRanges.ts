import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Database } from '../../database';
import type { Cursors } from '../../kernel/pages';
import {
  type QueriedSensor,
  type ReadingKey,
  ReadingQueryRepository,
  getDownsampledBefore,
} from '../readings/readingQueryRepository';
import { BEFORE_ALL_POSITIONS, type StoredReading } from '../readings/storedReading';
import { loadInBatches } from './readingLoader';
import { estimateReadingSize } from './readingSize';

/** A query for a time range. Times are Unix milliseconds; `from` is before `to`. */
export interface RangeQuery {
  readonly sensorIds: readonly string[];
  readonly from: number;
  readonly to: number;
  readonly order: 'asc' | 'desc';
  /** Undefined or 0 for the default of 1000; at most 5000. */
  readonly pageSize: number | undefined;
  readonly pageToken: string;
}

/** One page of readings. */
interface RangePage {
  readonly readings: readonly StoredReading[];
  readonly nextPageToken: string;
  /** See getDownsampledBefore. */
  readonly downsampledBefore: number | undefined;
}

/**
 * The end of a page: `sensor` is the index of the sensor in the request, and the key is that of its last reading.
 * Without a key, the next page starts with the first reading of the sensor.
 */
interface RangePosition extends Partial<ReadingKey> {
  readonly sensor: number;
}

const DEFAULT_PAGE_SIZE = 1000;
const MAX_PAGE_SIZE = 5000;
const READ_BATCH_SIZE = 500;
// A page ends when its encoded size reaches this limit, because a text can be as long as an uplink. Typical clients
// accept messages of up to 4 MiB.
const MAX_PAGE_BYTES = 1024 * 1024;

/** Queries the readings of a time range. */
export class ReadingRanges {
  private readonly readings: ReadingQueryRepository;

  constructor(private readonly options: { readonly database: Database; readonly cursors: Cursors }) {
    this.readings = new ReadingQueryRepository(options.database.db);
  }

  /**
   * Returns one page of readings. Throws `sensor_not_found`, and `validation_failed` for a page token of another query.
   */
  async query(organizationId: string, query: RangeQuery, signal: AbortSignal): Promise<RangePage> {
    const queryKey = [organizationId, 'readings', JSON.stringify([query.sensorIds, query.from, query.to, query.order])];
    const start = this.options.cursors.decode<RangePosition>(queryKey, query.pageToken, 'pageToken') ?? { sensor: 0 };
    const sensors = await this.readings.getSensors(organizationId, query.sensorIds);
    const downsampledBefore = getDownsampledBefore(sensors, query.from);
    const page = new PageBuilder(Math.min(query.pageSize || DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE));
    for (let index = start.sensor; index < sensors.length; index += 1) {
      const end = await this.fillPage(
        sensors[index] as QueriedSensor,
        query,
        index === start.sensor ? getKey(start) : undefined,
        page,
        signal,
      );
      if (end === 'done') continue;
      const position: RangePosition = { sensor: index, time: end.time, position: end.position };
      return {
        readings: page.items,
        nextPageToken: this.options.cursors.encode(queryKey, position),
        downsampledBefore,
      };
    }
    return { readings: page.items, nextPageToken: '', downsampledBefore };
  }

  /**
   * Adds the readings of one sensor after a key (time and position) to the page. Resolves to `done` after the last
   * reading of the sensor, or to the key of the last reading on the page if the page is full and more readings follow.
   */
  private async fillPage(
    sensor: QueriedSensor,
    query: RangeQuery,
    after: ReadingKey | undefined,
    page: PageBuilder,
    signal: AbortSignal,
  ): Promise<'done' | ReadingKey> {
    if (sensor.series === undefined) return 'done';
    const range = { sensorId: sensor.sensorId, series: sensor.series, from: query.from, to: query.to };
    let last = after;
    for (;;) {
      signal.throwIfAborted();
      const limit = Math.min(READ_BATCH_SIZE, page.remaining + 1);
      // Heads are readings without their texts, which loadInBatches adds.
      const heads = await this.readings.listRange(range, query.order, last, limit);
      for await (const batch of loadInBatches(this.readings, heads, () => sensor.sensorId)) {
        for (const reading of batch) {
          if (page.isFull) return last ?? getStartKey(query);
          page.add(reading);
          last = reading;
        }
      }
      if (heads.length < limit) return 'done';
      last = heads.at(-1); // the last readings may have been deleted in the meantime
      await yieldToEventLoop();
    }
  }
}

/** Collects readings up to the limits of a page. */
class PageBuilder {
  readonly items: StoredReading[] = [];
  private bytes = 0;

  /** `size`: the maximum number of readings. */
  constructor(private readonly size: number) {}

  get remaining(): number {
    return this.size - this.items.length;
  }

  get isFull(): boolean {
    return this.remaining <= 0 || this.bytes >= MAX_PAGE_BYTES;
  }

  add(reading: StoredReading): void {
    this.items.push(reading);
    this.bytes += estimateReadingSize(reading);
  }
}

/** Returns the key of a position; undefined if the page starts with the first reading of the sensor. */
function getKey({ time, position }: RangePosition): ReadingKey | undefined {
  return time === undefined || position === undefined ? undefined : { time, position };
}

/**
 * Returns the key before the first reading of a range. Its position is before all positions at the same time. So in
 * ascending order, all readings at the time `from` follow the key, and in descending order, those at the time `to`
 * precede it: `from` is inclusive, `to` is exclusive.
 */
function getStartKey({ order, from, to }: RangeQuery): ReadingKey {
  return { time: order === 'asc' ? from : to, position: BEFORE_ALL_POSITIONS };
}
