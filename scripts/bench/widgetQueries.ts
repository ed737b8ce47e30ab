import { gzipSync } from 'node:zlib';
import {
  AggregateFill,
  AggregateFunction,
  BucketUnit,
  QueryAggregateRequest,
  QueryAggregateResponse,
} from '../../src/gen/sensorquery/v1/sensor_query_service';
import { QueryWidgetDataRequest, QueryWidgetDataResponse } from '../../src/gen/widget/v2/widget_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import { HOUR_MS } from '../../src/kernel/timeUnits';
import { roundAverage } from '../../src/telemetry/queries/widgetData';
import { printEventLoopDelay } from './eventLoopDelay';
import { callMethod, toLoadTarget } from './fleet';
import { compare, print, type Subject } from './measure';
import type { PlantroomServer } from './plantroomServer';

const WIDGET_DATA = '/widget.v2.WidgetService/QueryWidgetData';
const AGGREGATE = '/sensorquery.v1.SensorQueryService/QueryAggregate';
const WEEK_HOURS = 7 * 24;
/** The goals at the median, in milliseconds. */
const GOALS = { year: 20, week: 150 } as const;

/** What is queried. */
interface WidgetHistory {
  /** All sensors; each has the readings of the last week. */
  readonly sensorIds: readonly string[];
  /** The first sensors have the readings of all hours. */
  readonly longCount: number;
  readonly hours: number;
  /** The end of the last hour, Unix milliseconds. */
  readonly until: number;
}

/** Measures QueryWidgetData, and QueryAggregate with the same buckets. */
export async function measureWidgetQueries(
  server: PlantroomServer,
  { sensorIds, longCount, hours, until }: WidgetHistory,
  rounds: number,
): Promise<void> {
  const from = until - hours * HOUR_MS;
  const long = sensorIds.slice(0, longCount);
  const year = encodeWidgetRequest(long.slice(0, 1), from, until, 4000);
  const several = encodeWidgetRequest(long, from, until, hours / 24 + 1);
  const aggregate = encodeDaysRequest(long, from, until);
  const week = encodeWidgetRequest(sensorIds, until - WEEK_HOURS * HOUR_MS, until);
  await checkEqual(server, several, aggregate);
  const createSubject = (name: string, path: string, message: Uint8Array): Subject => ({
    name,
    server: server.process,
    load: { ...toLoadTarget(server, server.key, path), concurrency: 1, message: () => message },
  });
  const [yearRow, widgetRow, aggregateRow, weekRow] = await compare(
    [
      createSubject(`QueryWidgetData: ${hours / 24} days of a sensor`, WIDGET_DATA, year),
      createSubject(`QueryWidgetData: ${hours / 24} days of ${long.length} sensors`, WIDGET_DATA, several),
      createSubject('QueryAggregate: the same buckets', AGGREGATE, aggregate),
      createSubject(`QueryWidgetData: a week of ${sensorIds.length} sensors`, WIDGET_DATA, week),
    ],
    rounds,
  );
  print(
    `  -> QueryWidgetData: ${formatRatio(widgetRow?.p50, aggregateRow?.p50)} times the time and ${formatRatio(widgetRow?.cpu, aggregateRow?.cpu)} times the CPU time of QueryAggregate; a sensor ${formatRatio(yearRow?.p50, GOALS.year)} times its goal of ${GOALS.year} ms, ${sensorIds.length} sensors ${formatRatio(weekRow?.p50, GOALS.week)} times theirs of ${GOALS.week} ms`,
  );
  for (const [name, request] of [
    ['a sensor', year],
    [`${long.length} sensors`, several],
    [`a week of ${sensorIds.length} sensors`, week],
  ] as const) {
    await printSizes(server, name, request);
    await printEventLoopDelay(server, `QueryWidgetData, ${name}`, () =>
      callMethod(server, server.key, WIDGET_DATA, request),
    );
  }
}

/** Fails if both methods do not have the same buckets with the same minimum and maximum. */
async function checkEqual(server: PlantroomServer, widgets: Uint8Array, aggregate: Uint8Array): Promise<void> {
  const { series } = QueryWidgetDataResponse.decode(await callMethod(server, server.key, WIDGET_DATA, widgets));
  const { sensors } = QueryAggregateResponse.decode(await callMethod(server, server.key, AGGREGATE, aggregate));
  const columns = series.map(({ min, max, values }) => [min, max, values]);
  const expected = sensors.map(({ buckets }) => [
    buckets.map(({ min }) => min),
    buckets.map(({ max }) => max),
    buckets.map(({ timeWeightedAverage = 0, min = 0, max = 0 }) => roundAverage(timeWeightedAverage, max - min)),
  ]);
  if (series.length === 0 || JSON.stringify(columns) !== JSON.stringify(expected))
    throw new Error('QueryWidgetData and QueryAggregate have different values');
}

async function printSizes(server: PlantroomServer, name: string, request: Uint8Array): Promise<void> {
  const bytes = await callMethod(server, server.key, WIDGET_DATA, request);
  const response = QueryWidgetDataResponse.decode(bytes);
  const points = response.series.reduce((sum, { times }) => sum + times.length, 0);
  const json = JSON.stringify(response);
  print(
    `  ${name}: ${points} points, protobuf ${formatKib(bytes.length)}, JSON ${formatKib(json.length)}, compressed ${formatKib(gzipSync(json).length)}`,
  );
}

function encodeWidgetRequest(sensorIds: readonly string[], from: number, to: number, maxPoints?: number): Uint8Array {
  const range = { sensorIds: [...sensorIds], from: toTimestamp(from), to: toTimestamp(to) };
  return QueryWidgetDataRequest.encode(
    QueryWidgetDataRequest.fromPartial(maxPoints === undefined ? range : { ...range, maxPoints }),
  ).finish();
}

function encodeDaysRequest(sensorIds: readonly string[], from: number, to: number): Uint8Array {
  const request = QueryAggregateRequest.fromPartial({
    sensorIds: [...sensorIds],
    from: toTimestamp(from),
    to: toTimestamp(to),
    bucket: { unit: BucketUnit.BUCKET_UNIT_DAY, count: 1 },
    functions: [
      AggregateFunction.AGGREGATE_FUNCTION_MIN,
      AggregateFunction.AGGREGATE_FUNCTION_MAX,
      AggregateFunction.AGGREGATE_FUNCTION_TIME_WEIGHTED_AVERAGE,
    ],
    fill: AggregateFill.AGGREGATE_FILL_NONE,
  });
  return QueryAggregateRequest.encode(request).finish();
}

function formatRatio(value: number | undefined, base: number | undefined): string {
  return ((value ?? Number.NaN) / (base ?? Number.NaN)).toFixed(2);
}

function formatKib(size: number): string {
  return `${(size / 1024).toFixed(1)} KiB`;
}
