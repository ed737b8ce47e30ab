import type { HourQueryRepository } from '../readings/hourQueryRepository';
import type { ReadingQueryRepository } from '../readings/readingQueryRepository';
import { type BucketValues, getNumberValues } from './bucketValues';
import { type NumberSource, NumberSums } from './numberSums';

/** The repositories of readings and of hourly summaries. */
interface NumberRepositories {
  readonly readings: ReadingQueryRepository;
  readonly hours: HourQueryRepository;
}

/** The values of each bucket, and the last number before the first bucket. */
interface NumberAggregates {
  /** Undefined for a bucket without numbers. */
  readonly values: readonly (BucketValues | undefined)[];
  readonly previous: number | undefined;
}

/**
 * Aggregates the numbers of one series in buckets. `now`: the last value of a bucket counts until the end of the bucket
 * or until this time.
 */
export async function aggregateNumbers(
  repositories: NumberRepositories,
  source: NumberSource,
  edges: readonly number[],
  now: number,
): Promise<NumberAggregates> {
  const { readings, hours } = repositories;
  const previous = await findNumberBefore(repositories, source.series, edges[0] as number);
  const sums = await new NumberSums(readings, hours, source, edges).sumUp();
  return { values: getNumberValues(edges, sums, previous, now), previous };
}

/**
 * Returns the last number before a time. Downsampling removes the readings of an hour, so a summary that is newer than
 * the last reading has the last number.
 */
async function findNumberBefore(
  { readings, hours }: NumberRepositories,
  series: number,
  time: number,
): Promise<number | undefined> {
  const reading = await readings.findNumberBefore(series, time);
  const hour = await hours.findValueBefore(series, time);
  const isHourNewer = hour !== undefined && (reading === undefined || hour.time > reading.time);
  return isHourNewer ? hour.value : reading?.num;
}
