import {
  type AggregateBucket as BucketMessage,
  AggregateFill as WireFill,
  AggregateFunction as WireFunction,
  BucketUnit as WireUnit,
  type QueryAggregateRequest,
  type SensorAggregate,
} from '../../gen/sensorquery/v1/sensor_query_service';
import type { Violation } from '../../kernel/errors';
import { toTimestamp } from '../../kernel/timestamps';
import type { AggregatePage, AggregateQuery } from './aggregates';
import { type BucketLength, bucketProblem, type BucketUnit, isTimeZone } from './buckets';
import type { AggregateFill, AggregateFunction, Bucket } from './bucketValues';
import { checkTimes, timeOf } from './readingMessages';

const UNITS = new Map<WireUnit, BucketUnit>([
  [WireUnit.BUCKET_UNIT_SECOND, 'second'],
  [WireUnit.BUCKET_UNIT_MINUTE, 'minute'],
  [WireUnit.BUCKET_UNIT_HOUR, 'hour'],
  [WireUnit.BUCKET_UNIT_DAY, 'day'],
  [WireUnit.BUCKET_UNIT_WEEK, 'week'],
  [WireUnit.BUCKET_UNIT_MONTH, 'month'],
]);

const FUNCTIONS = new Map<WireFunction, AggregateFunction>([
  [WireFunction.AGGREGATE_FUNCTION_MIN, 'min'],
  [WireFunction.AGGREGATE_FUNCTION_MAX, 'max'],
  [WireFunction.AGGREGATE_FUNCTION_AVG, 'avg'],
  [WireFunction.AGGREGATE_FUNCTION_SUM, 'sum'],
  [WireFunction.AGGREGATE_FUNCTION_COUNT, 'count'],
  [WireFunction.AGGREGATE_FUNCTION_FIRST, 'first'],
  [WireFunction.AGGREGATE_FUNCTION_LAST, 'last'],
  [WireFunction.AGGREGATE_FUNCTION_TIME_WEIGHTED_AVERAGE, 'timeWeightedAverage'],
]);

const FILLS = new Map<WireFill, AggregateFill>([
  [WireFill.AGGREGATE_FILL_NULL, 'null'],
  [WireFill.AGGREGATE_FILL_PREVIOUS, 'previous'],
  [WireFill.AGGREGATE_FILL_LINEAR, 'linear'],
]);

/** What is wrong with a request for aggregates as far as it alone tells, beyond the field rules. */
export function checkAggregate(message: QueryAggregateRequest): Violation[] {
  const { bucket, timeZone, functions } = message;
  const violations = checkTimes(message);
  const length = bucket && lengthOf(bucket);
  const problem = length && bucketProblem(length);
  if (problem) violations.push({ field: 'bucket', description: problem });
  if (timeZone !== '' && !isTimeZone(timeZone)) violations.push({ field: 'timeZone', description: 'is no time zone; give an IANA name such as Europe/Rome, or nothing for UTC' });
  for (const [at, name] of functions.entries()) {
    if (name === WireFunction.AGGREGATE_FUNCTION_UNSPECIFIED) violations.push({ field: `functions[${at}]`, description: 'is unspecified; name a function, or leave out the list for all of them' });
  }
  return violations;
}

/** What aggregates are asked for. Assumes a request without violations. */
export function aggregateFromMessage(message: QueryAggregateRequest): AggregateQuery {
  const { sensorIds, from, to, bucket, timeZone, functions, fill, pageToken } = message;
  return {
    sensorIds,
    from: timeOf(from),
    to: timeOf(to),
    bucket: (bucket && lengthOf(bucket)) ?? { count: 1, unit: 'hour' },
    timeZone: timeZone === '' ? 'UTC' : timeZone,
    functions: functions.flatMap((name) => FUNCTIONS.get(name) ?? []),
    fill: FILLS.get(fill) ?? 'none',
    pageToken,
  };
}

/** The sensors of one page. */
export function aggregatesToMessages({ sensors }: AggregatePage): SensorAggregate[] {
  return sensors.map(({ sensorId, buckets }) => ({ sensorId, buckets: buckets.map(bucketToMessage) }));
}

/** Undefined for what is not within the field rules. */
function lengthOf({ count, unit }: { readonly count: number; readonly unit: WireUnit }): BucketLength | undefined {
  const known = UNITS.get(unit);
  return known && count >= 1 ? { count, unit: known } : undefined;
}

function bucketToMessage({ start, end, values }: Bucket): BucketMessage {
  const { count, min, max, avg, sum, first, last, timeWeightedAverage, firstText, lastText } = values;
  return { start: toTimestamp(start), end: toTimestamp(end), count, min, max, avg, sum, first, last, timeWeightedAverage, firstValue: firstText, lastValue: lastText };
}
