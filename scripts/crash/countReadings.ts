import { setTimeout as wait } from 'node:timers/promises';
import {
  AggregateFunction,
  BucketUnit,
  QueryAggregateRequest,
  type QueryAggregateResponse,
} from '../../src/gen/sensorquery/v1/sensor_query_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import { callUnary, type Clients } from './clients';

const DAY_MS = 86_400_000;
const DAYS = 300;
const POLL_INTERVAL_MS = 200;
const MAX_IDLE_MS = 20_000;

/** Counts the readings of these sensors on the server. */
export async function countReadings({ readings, metadata }: Clients, sensorIds: readonly string[]): Promise<number> {
  const request = QueryAggregateRequest.fromPartial({
    sensorIds: [...sensorIds],
    from: toTimestamp(Date.now() - DAY_MS),
    to: toTimestamp(Date.now() + DAYS * DAY_MS),
    bucket: { count: 12, unit: BucketUnit.BUCKET_UNIT_MONTH },
    functions: [AggregateFunction.AGGREGATE_FUNCTION_COUNT],
  });
  const { sensors } = await callUnary<QueryAggregateResponse>((callback) =>
    readings.queryAggregate(request, metadata, callback),
  );
  return sensors.flatMap(({ buckets }) => buckets).reduce((sum, { count }) => sum + (count ?? 0), 0);
}

/** Returns the number of readings when all are stored, or when none has been added for 20 s. */
export async function countUntilAllStored(
  clients: Clients,
  sensorIds: readonly string[],
  expected: number,
): Promise<number> {
  for (let stored = -1, since = performance.now(); ;) {
    const now = await countReadings(clients, sensorIds);
    if (now > stored) [stored, since] = [now, performance.now()];
    if (stored >= expected || performance.now() - since > MAX_IDLE_MS) return stored;
    await wait(POLL_INTERVAL_MS);
  }
}
