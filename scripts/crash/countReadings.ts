import { AggregateFunction, BucketUnit, QueryAggregateRequest, type QueryAggregateResponse } from '../../src/gen/sensorquery/v1/sensor_query_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import { answer, type Clients } from './clients';

const DAY_MS = 86_400_000;
const DAYS = 300;

/** How many readings of these sensors the server holds. */
export async function countReadings({ readings, metadata }: Clients, sensorIds: readonly string[]): Promise<number> {
  const request = QueryAggregateRequest.fromPartial({
    sensorIds: [...sensorIds],
    from: toTimestamp(Date.now() - DAY_MS),
    to: toTimestamp(Date.now() + DAYS * DAY_MS),
    bucket: { count: 12, unit: BucketUnit.BUCKET_UNIT_MONTH },
    functions: [AggregateFunction.AGGREGATE_FUNCTION_COUNT],
  });
  const { sensors } = await answer<QueryAggregateResponse>((answered) => readings.queryAggregate(request, metadata, answered));
  return sensors.flatMap(({ buckets }) => buckets).reduce((sum, { count }) => sum + (count ?? 0), 0);
}
