import { setTimeout as wait } from 'node:timers/promises';
import {
  AggregateFunction,
  BucketUnit,
  QueryAggregateRequest,
  type QueryAggregateResponse,
} from '../../src/gen/sensorquery/v1/sensor_query_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import { callUnary, type Clients } from './clients';
import type { Outcome } from './outcome';

const DAY_MS = 86_400_000;
const DAYS = 300;
const POLL_INTERVAL_MS = 200;
const MAX_IDLE_MS = 20_000;

/**
 * The number and the sum of readings. If one uplink is lost and another one is stored twice, only the sum shows it.
 */
export interface ReadingTotals {
  readonly count: number;
  readonly sum: number;
}

/** Counts and adds up the readings of these sensors on the server. */
export async function countReadings(
  { readings, metadata }: Clients,
  sensorIds: readonly string[],
): Promise<ReadingTotals> {
  const request = QueryAggregateRequest.fromPartial({
    sensorIds: [...sensorIds],
    from: toTimestamp(Date.now() - DAY_MS),
    to: toTimestamp(Date.now() + DAYS * DAY_MS),
    bucket: { count: 12, unit: BucketUnit.BUCKET_UNIT_MONTH },
    functions: [AggregateFunction.AGGREGATE_FUNCTION_COUNT, AggregateFunction.AGGREGATE_FUNCTION_SUM],
  });
  const { sensors } = await callUnary<QueryAggregateResponse>((callback) =>
    readings.queryAggregate(request, metadata, callback),
  );
  const buckets = sensors.flatMap((sensor) => sensor.buckets);
  return {
    count: buckets.reduce((total, { count }) => total + (count ?? 0), 0),
    sum: buckets.reduce((total, { sum }) => total + (sum ?? 0), 0),
  };
}

/** Returns the readings when `expected` of them are stored, or when none has been added for 20 s. */
export async function countUntilAllStored(
  clients: Clients,
  sensorIds: readonly string[],
  expected: number,
): Promise<ReadingTotals> {
  for (let stored = -1, since = performance.now(); ;) {
    const now = await countReadings(clients, sensorIds);
    if (now.count > stored) [stored, since] = [now.count, performance.now()];
    if (stored >= expected || performance.now() - since > MAX_IDLE_MS) return now;
    await wait(POLL_INTERVAL_MS);
  }
}

/** Returns the totals with one more reading. */
export function addReading({ count, sum }: ReadingTotals, value: number): ReadingTotals {
  return { count: count + 1, sum: sum + value };
}

/** Compares the uplinks that a broker accepted, of one reading each, with the readings on the server. */
export function compareReadings(accepted: ReadingTotals, stored: ReadingTotals): Pick<Outcome, 'lost' | 'doubled'> {
  if (stored.count === accepted.count && stored.sum === accepted.sum) return { lost: [], doubled: [] };
  const text = `the broker accepted ${accepted.count} uplinks (sum ${accepted.sum}), but ${stored.count} are stored (sum ${stored.sum})`;
  return {
    lost: stored.count <= accepted.count ? [text] : [],
    doubled: stored.count >= accepted.count ? [text] : [],
  };
}
