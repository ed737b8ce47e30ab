import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { Cursors } from '../../kernel/pages';
import { HourQueryRepository } from '../readings/hourQueryRepository';
import { type QueriedSensor, ReadingQueryRepository, getDownsampledBefore } from '../readings/readingQueryRepository';
import type { StoredReading } from '../readings/storedReading';
import { listBucketEdges, type BucketLength, canEndWithinHour, MAX_BUCKETS } from './buckets';
import {
  type AggregateFill,
  type AggregateFunction,
  type Bucket,
  type BucketValues,
  fillBuckets,
  getPreviousValues,
  getTextsSize,
  getTextValues,
  selectFunctions,
} from './bucketValues';
import { aggregateNumbers } from './numberAggregates';
import { MAX_TEXT_BYTES, summarizeTexts, textsTooLarge } from './textSums';

// A page of several sensors ends when it has this many bytes of texts.
const MAX_PAGE_TEXT_BYTES = 512 * 1024;

/** An aggregate query. Times are Unix milliseconds; `from` is before `to`. */
export interface AggregateQuery {
  readonly sensorIds: readonly string[];
  readonly from: number;
  readonly to: number;
  readonly bucket: BucketLength;
  /** An IANA name. */
  readonly timeZone: string;
  /** Empty for all functions that the type of the sensor supports. */
  readonly functions: readonly AggregateFunction[];
  readonly fill: AggregateFill;
  readonly pageToken: string;
}

/** One page. Each sensor has all its buckets. */
export interface AggregatePage {
  readonly sensors: readonly { readonly sensorId: string; readonly buckets: readonly Bucket[] }[];
  readonly nextPageToken: string;
  /** See getDownsampledBefore. */
  readonly downsampledBefore: number | undefined;
}

/** Aggregates readings in time buckets. */
export class Aggregates {
  private readonly readings: ReadingQueryRepository;
  private readonly hours: HourQueryRepository;

  constructor(
    private readonly options: { readonly database: Database; readonly cursors: Cursors; readonly clock: Clock },
  ) {
    this.readings = new ReadingQueryRepository(options.database.db);
    this.hours = new HourQueryRepository(options.database.db);
  }

  /**
   * Returns one page of aggregates: all buckets of some sensors, as many as fit into a response. Throws
   * `sensor_not_found`, and `validation_failed` for too many buckets, too much text or a page token of another query.
   */
  async query(organizationId: string, query: AggregateQuery, signal: AbortSignal): Promise<AggregatePage> {
    const queryKey = [organizationId, 'aggregates', JSON.stringify({ ...query, pageToken: '' })];
    // A page token contains the index of the next sensor.
    const firstIndex = this.options.cursors.decode<{ next: number }>(queryKey, query.pageToken, 'pageToken')?.next ?? 0;
    const sensors = await this.readings.getSensors(organizationId, query.sensorIds);
    const edges = await listBucketEdges(query.from, query.to, query.bucket, query.timeZone);
    const bucketCount = edges.length - 1;
    const sensorsPerPage = Math.max(1, Math.floor(MAX_BUCKETS / bucketCount));
    const endIndex = Math.min(firstIndex + sensorsPerPage, sensors.length);
    const page: { sensorId: string; buckets: Bucket[] }[] = [];
    let textBytes = 0;
    let index = firstIndex;
    for (; index < endIndex && textBytes < MAX_PAGE_TEXT_BYTES; index += 1) {
      signal.throwIfAborted();
      const sensor = sensors[index] as QueriedSensor;
      const buckets = await this.listBuckets(sensor, query, edges);
      const size = getTextsSize(buckets);
      if (size > MAX_TEXT_BYTES) throw textsTooLarge();
      textBytes += size;
      page.push({ sensorId: sensor.sensorId, buckets });
      await yieldToEventLoop();
    }
    return {
      sensors: page,
      nextPageToken: index < sensors.length ? this.options.cursors.encode(queryKey, { next: index }) : '',
      downsampledBefore: getDownsampledBefore(sensors, query.from),
    };
  }

  /** Returns the buckets of one sensor with the requested functions. */
  private async listBuckets(sensor: QueriedSensor, query: AggregateQuery, edges: readonly number[]): Promise<Bucket[]> {
    const { values, before } =
      sensor.series === undefined
        ? { values: Array.from<undefined>({ length: edges.length - 1 }), before: undefined }
        : await this.getValues({ ...sensor, series: sensor.series }, query, edges);
    return fillBuckets(edges, values, query.fill, before).map((bucket) => ({
      ...bucket,
      values: selectFunctions(bucket.values, query.functions),
    }));
  }

  /** Aggregates the readings of one sensor, as texts or as numbers by its value type. */
  private async getValues(
    sensor: QueriedSensor & { series: number },
    query: AggregateQuery,
    edges: readonly number[],
  ): Promise<SensorValues> {
    const { sensorId, series, valueType } = sensor;
    if (valueType === 'string' || valueType === 'json') {
      const values = getTextValues(await summarizeTexts(this.readings, sensor, edges, query.functions));
      const previous = query.fill === 'previous' ? await this.findTextBefore(sensorId, series, query.from) : undefined;
      return { values, before: previous && { firstText: previous.value, lastText: previous.value } };
    }
    const { values, previous } = await aggregateNumbers(
      { readings: this.readings, hours: this.hours },
      { ...sensor, useHours: !canEndWithinHour(query.bucket) },
      edges,
      this.options.clock.now(),
    );
    return { values, before: getPreviousValues(previous) };
  }

  /** Returns the last string or JSON value before a time; undefined if there is none. */
  private async findTextBefore(sensorId: string, series: number, time: number): Promise<StoredReading | undefined> {
    const head = await this.readings.findTextBefore(series, time);
    return head && (await this.readings.loadReadings([head], () => sensorId))[0];
  }
}

/** The values of one sensor: of each bucket, and before the first bucket. */
interface SensorValues {
  readonly values: readonly (BucketValues | undefined)[];
  readonly before: BucketValues | undefined;
}
