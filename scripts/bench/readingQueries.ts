import {
  AggregateFill,
  BucketUnit,
  QueryAggregateRequest,
  QueryAggregateResponse,
  QueryLatestRequest,
} from '../../src/gen/sensorquery/v1/sensor_query_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import { HOUR_MS } from '../../src/kernel/timeUnits';
import { startBroker } from './benchBroker';
import { measureDashboardContent } from './dashboardContent';
import { callMethod, toLoadTarget } from './fleet';
import { compare, print, isShort, type Subject } from './measure';
import { PlantroomServer } from './plantroomServer';
import { createReadingHistory } from './readingHistoryData';
import { UplinkRun } from './uplinkRun';
import { createUplinkSite, SENSORS } from './uplinkSite';
import { measureWidgetQueries } from './widgetQueries';

const QUERIES = '/sensorquery.v1.SensorQueryService';
const DAY = 24;
const HOURS = isShort ? 30 * DAY : 365 * DAY;
const QUERIED_SENSORS = 50;
/** The number of sensors with readings of all hours; the others have those of a week. */
const LONG_SENSORS = isShort ? 2 : 10;
const WEEK_HOURS = 7 * DAY;
/** The goal for the hourly aggregate of one sensor over a year, in milliseconds. */
const GOAL = 50;
const rounds = isShort ? 2 : 5;

/** Measures queries of readings of sensors with one reading per minute for a year. */
export async function benchReadingQueries(): Promise<void> {
  print(
    `\nqueries of readings, one reading per minute for ${HOURS / DAY} days: SQLite, TLS on, one call at a time (goal: hourly aggregate of the year within ${GOAL} ms)`,
  );
  const broker = await startBroker();
  const first = await PlantroomServer.start();
  try {
    const site = await createUplinkSite(first, broker.url, QUERIED_SENSORS / SENSORS);
    {
      await using run = await UplinkRun.open(site, broker.url);
      await run.burst(QUERIED_SENSORS);
    }
    await first.process.stop();
    const sensorIds = site.devices.flatMap(({ sensors }) => sensors);
    await createReadingHistory(first, sensorIds.slice(LONG_SENSORS), WEEK_HOURS);
    const until = await createReadingHistory(first, sensorIds.slice(0, LONG_SENSORS), HOURS);
    const server = await PlantroomServer.start({}, { folder: first.folder });
    try {
      await measure(server, sensorIds, until);
      await measureWidgetQueries(server, { sensorIds, longCount: LONG_SENSORS, hours: HOURS, until }, rounds);
      await measureDashboardContent(server, sensorIds);
    } finally {
      await server.process.stop();
    }
  } finally {
    await first.remove();
    await broker.stop();
  }
}

async function measure(server: PlantroomServer, sensorIds: readonly string[], until: number): Promise<void> {
  const latest = QueryLatestRequest.encode(QueryLatestRequest.fromPartial({ sensorIds: [...sensorIds] })).finish();
  const day = encodeAggregateRequest(
    sensorIds[0] ?? '',
    until - DAY * HOUR_MS,
    until,
    BucketUnit.BUCKET_UNIT_MINUTE,
    15,
  );
  const year = encodeAggregateRequest(
    sensorIds[0] ?? '',
    until - HOURS * HOUR_MS,
    until,
    BucketUnit.BUCKET_UNIT_HOUR,
    1,
  );
  checkYear(await callMethod(server, server.key, `${QUERIES}/QueryAggregate`, year));
  const createSubject = (name: string, method: string, message: Uint8Array): Subject => ({
    name,
    server: server.process,
    load: { ...toLoadTarget(server, server.key, `${QUERIES}/${method}`), concurrency: 1, message: () => message },
  });
  const [, , yearRow] = await compare(
    [
      createSubject(`QueryLatest of ${QUERIED_SENSORS} sensors`, 'QueryLatest', latest),
      createSubject('QueryAggregate: a day, quarter-hourly', 'QueryAggregate', day),
      createSubject(`QueryAggregate: ${HOURS} hours`, 'QueryAggregate', year),
    ],
    rounds,
  );
  print(
    `  -> the hours of ${HOURS / DAY} days: ${((yearRow?.p50 ?? Number.NaN) / GOAL).toFixed(2)} times the goal at the median, ${((yearRow?.p99 ?? Number.NaN) / GOAL).toFixed(2)} at the 99th percentile`,
  );
}

function checkYear(response: Uint8Array): void {
  const buckets = QueryAggregateResponse.decode(response).sensors[0]?.buckets ?? [];
  if (buckets.length !== HOURS || buckets.some(({ count }) => count !== 60))
    throw new Error(`the year shows ${buckets.length} hours instead of ${HOURS}, or not 60 readings in each`);
}

function encodeAggregateRequest(
  sensorId: string,
  from: number,
  to: number,
  unit: BucketUnit,
  count: number,
): Uint8Array {
  const request = QueryAggregateRequest.fromPartial({
    sensorIds: [sensorId],
    from: toTimestamp(from),
    to: toTimestamp(to),
    bucket: { unit, count },
    fill: AggregateFill.AGGREGATE_FILL_NONE,
  });
  return QueryAggregateRequest.encode(request).finish();
}
