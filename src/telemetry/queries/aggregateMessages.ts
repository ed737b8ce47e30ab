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
import { type BucketLength, getBucketProblem, type BucketUnit, isTimeZone } from './buckets';
import type { AggregateFill, AggregateFunction, Bucket } from './bucketValues';
import { checkTimes, getTime } from './readingMessages';

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

/** Checks the rules of an aggregate request that the field rules do not cover. */
export function checkAggregate(message: QueryAggregateRequest): Violation[] {
  const { bucket, timeZone, functions } = message;
  const violations = checkTimes(message);
  const length = bucket && findLength(bucket);
  const problem = length && getBucketProblem(length);
  if (problem) violations.push({ field: 'bucket', description: problem });
  violations.push(...getTimeZoneViolations(timeZone));
  for (const [index, name] of functions.entries()) {
    if (name === WireFunction.AGGREGATE_FUNCTION_UNSPECIFIED)
      violations.push({
        field: `functions[${index}]`,
        description: 'is unspecified: name a function, or omit the list for all functions',
      });
  }
  return violations;
}

/** Checks that a time zone is an IANA name, or empty. */
export function getTimeZoneViolations(timeZone: string): Violation[] {
  if (timeZone === '' || isTimeZone(timeZone)) return [];
  return [{ field: 'timeZone', description: 'must be an IANA time zone such as Europe/Rome, or empty for UTC' }];
}

/** Converts a request without violations to a query. */
export function aggregateFromMessage(message: QueryAggregateRequest): AggregateQuery {
  const { sensorIds, from, to, bucket, timeZone, functions, fill, pageToken } = message;
  return {
    sensorIds,
    from: getTime(from),
    to: getTime(to),
    bucket: (bucket && findLength(bucket)) ?? { count: 1, unit: 'hour' },
    timeZone: timeZone === '' ? 'UTC' : timeZone,
    functions: functions.flatMap((name) => FUNCTIONS.get(name) ?? []),
    fill: FILLS.get(fill) ?? 'none',
    pageToken,
  };
}

/** Converts the sensors of one page. */
export function aggregatesToMessages({ sensors }: AggregatePage): SensorAggregate[] {
  return sensors.map(({ sensorId, buckets }) => ({ sensorId, buckets: buckets.map(bucketToMessage) }));
}

/** Returns the length of a bucket; undefined for a count or a unit that violates the field rules. */
function findLength({ count, unit }: { readonly count: number; readonly unit: WireUnit }): BucketLength | undefined {
  const known = UNITS.get(unit);
  return known && count >= 1 ? { count, unit: known } : undefined;
}

/** Converts a bucket; functions that were not requested are absent. */
function bucketToMessage({ start, end, values }: Bucket): BucketMessage {
  const { count, min, max, avg, sum, first, last, timeWeightedAverage, firstText, lastText } = values;
  return {
    start: toTimestamp(start),
    end: toTimestamp(end),
    count,
    min,
    max,
    avg,
    sum,
    first,
    last,
    timeWeightedAverage,
    firstValue: firstText,
    lastValue: lastText,
  };
}
