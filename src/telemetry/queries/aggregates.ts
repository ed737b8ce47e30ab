import { setImmediate as othersTurn } from 'node:timers/promises';
import type { Database } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { Cursors } from '../../kernel/pages';
import { HourQueryRepository } from '../readings/hourQueryRepository';
import { type AskedSensor, ReadingQueryRepository, thinnedBefore } from '../readings/readingQueryRepository';
import type { StoredReading } from '../readings/storedReading';
import { bucketEdges, type BucketLength, isWithinHours, MOST_BUCKETS } from './buckets';
import { type AggregateFill, type AggregateFunction, type Bucket, type BucketValues, chosen, filledBuckets, sizeOfTexts, valuesOfHeld, valuesOfNumbers, valuesOfTexts } from './bucketValues';
import { NumberSums } from './numberSums';
import { MOST_TEXT, textSums, tooMuchText } from './textSums';

// A page of several sensors ends with so many bytes of texts.
const TEXT_OF_PAGE = 512 * 1024;

/** What is asked for; times in Unix milliseconds, `from` before `to`. */
export interface AggregateQuery {
  readonly sensorIds: readonly string[];
  readonly from: number;
  readonly to: number;
  readonly bucket: BucketLength;
  /** An IANA name. */
  readonly timeZone: string;
  /** Empty: all that the type of the sensor has. */
  readonly functions: readonly AggregateFunction[];
  readonly fill: AggregateFill;
  readonly pageToken: string;
}

/** One page: whole sensors with their buckets. */
export interface AggregatePage {
  readonly sensors: readonly { readonly sensorId: string; readonly buckets: readonly Bucket[] }[];
  readonly nextPageToken: string;
  /** thinnedBefore of the sensors. */
  readonly thinnedBefore: number | undefined;
}

/** Sums up readings in buckets of time. */
export class Aggregates {
  private readonly readings: ReadingQueryRepository;
  private readonly hours: HourQueryRepository;

  constructor(private readonly options: { readonly database: Database; readonly cursors: Cursors; readonly clock: Clock }) {
    this.readings = new ReadingQueryRepository(options.database.db);
    this.hours = new HourQueryRepository(options.database.db);
  }

  /** Throws `sensor_not_found`, and `validation_failed` for too many buckets or a foreign page token. */
  async query(organizationId: string, query: AggregateQuery, signal: AbortSignal): Promise<AggregatePage> {
    const list = [organizationId, 'aggregates', JSON.stringify({ ...query, pageToken: '' })];
    const first = this.options.cursors.decode<{ next: number }>(list, query.pageToken, 'pageToken')?.next ?? 0;
    const sensors = await this.readings.sensors(organizationId, query.sensorIds);
    const edges = await bucketEdges(query.from, query.to, query.bucket, query.timeZone);
    const most = first + Math.max(1, Math.floor(MOST_BUCKETS / (edges.length - 1)));
    const page: { sensorId: string; buckets: Bucket[] }[] = [];
    let [next, text] = [first, 0];
    for (; next < Math.min(most, sensors.length) && text < TEXT_OF_PAGE; next += 1) {
      signal.throwIfAborted();
      const sensor = sensors[next] as AskedSensor;
      const buckets = await this.bucketsOf(sensor, query, edges);
      const size = sizeOfTexts(buckets);
      if (size > MOST_TEXT) throw tooMuchText();
      text += size;
      page.push({ sensorId: sensor.sensorId, buckets });
      await othersTurn();
    }
    return { sensors: page, nextPageToken: next < sensors.length ? this.options.cursors.encode(list, { next }) : '', thinnedBefore: thinnedBefore(sensors, query.from) };
  }

  private async bucketsOf(sensor: AskedSensor, query: AggregateQuery, edges: readonly number[]): Promise<Bucket[]> {
    const { values, before } = sensor.series === undefined ? noValues(edges) : await this.valuesOf({ ...sensor, series: sensor.series }, query, edges);
    const only = (shown: BucketValues | undefined): BucketValues | undefined => shown && chosen(shown, query.functions);
    return filledBuckets(edges, values, query.fill, before).map((bucket) => ({ ...bucket, values: only(bucket.values) ?? {} }));
  }

  private async valuesOf(sensor: AskedSensor & { series: number }, query: AggregateQuery, edges: readonly number[]): Promise<Shown> {
    const { sensorId, series, valueType } = sensor;
    if (valueType === 'string' || valueType === 'json') {
      const values = valuesOfTexts(await textSums(this.readings, sensor, edges, query.functions));
      const held = query.fill === 'previous' ? await this.textBefore(sensorId, series, query.from) : undefined;
      return { values, before: held && { firstText: held.value, lastText: held.value } };
    }
    const held = await this.numberBefore(series, query.from);
    const sums = await new NumberSums(this.readings, this.hours, { ...sensor, byHours: !isWithinHours(query.bucket) }, edges).sumUp();
    return { values: valuesOfNumbers(edges, sums, held, this.options.clock.now()), before: valuesOfHeld(held) };
  }

  private async textBefore(sensorId: string, series: number, time: number): Promise<StoredReading | undefined> {
    const head = await this.readings.findTextBefore(series, time);
    return head && (await this.readings.readings([head], () => sensorId))[0];
  }

  /** What held at a time; where the readings before it are thinned, the hours know. */
  private async numberBefore(series: number, time: number): Promise<number | undefined> {
    const [reading, hour] = [await this.readings.findNumberBefore(series, time), await this.hours.findValueBefore(series, time)];
    return hour && hour.time > (reading?.time ?? -Infinity) ? hour.value : reading?.num;
  }
}

interface Shown {
  readonly values: readonly (BucketValues | undefined)[];
  readonly before: BucketValues | undefined;
}

function noValues(edges: readonly number[]): Shown {
  return { values: Array.from<undefined>({ length: edges.length - 1 }), before: undefined };
}
