import { AggregateFill, BucketUnit, QueryAggregateRequest, QueryAggregateResponse, QueryLatestRequest } from '../../src/gen/sensorquery/v1/sensor_query_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import { startBroker } from './benchBroker';
import { ask, target } from './fleet';
import { compare, say, short, type Subject } from './measure';
import { PlantroomServer } from './plantroomServer';
import { makeReadingPast } from './readingPast';
import { UplinkRun } from './uplinkRun';
import { makeUplinkSite, SENSORS } from './uplinkSite';

const QUERIES = '/sensorquery.v1.SensorQueryService';
const DAY = 24;
const HOURS = short ? 30 * DAY : 365 * DAY;
const HOUR_MS = 3_600_000;
const ASKED = 50;
/** For the year's hourly aggregate of one sensor, in milliseconds. */
const GOAL = 50;
const rounds = short ? 2 : 5;

/** What it costs to ask for readings: of sensors that showed something every minute of a year. */
export async function benchReadingQueries(): Promise<void> {
  say(`\nqueries of readings, one reading a minute for ${HOURS / DAY} days: SQLite, TLS on, one at a time (goal: the year by hours within ${GOAL} ms)`);
  const broker = await startBroker();
  const first = await PlantroomServer.start();
  try {
    const site = await makeUplinkSite(first, broker.url, ASKED / SENSORS);
    {
      await using run = await UplinkRun.open(site, broker.url);
      await run.burst(ASKED);
    }
    await first.process.stop();
    const sensorIds = site.devices.flatMap(({ sensors }) => sensors);
    const until = await makeReadingPast(first, sensorIds.slice(0, short ? 1 : 5), HOURS);
    const server = await PlantroomServer.start({}, { folder: first.folder });
    try {
      await measure(server, sensorIds, until);
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
  const day = aggregate(sensorIds[0] ?? '', until - DAY * HOUR_MS, until, BucketUnit.BUCKET_UNIT_MINUTE, 15);
  const year = aggregate(sensorIds[0] ?? '', until - HOURS * HOUR_MS, until, BucketUnit.BUCKET_UNIT_HOUR, 1);
  checkYear(await ask(server, server.key, `${QUERIES}/QueryAggregate`, year));
  const subject = (name: string, method: string, message: Uint8Array): Subject => ({ name, server: server.process, load: { ...target(server, server.key, `${QUERIES}/${method}`), concurrency: 1, message: () => message } });
  const [, , ofYear] = await compare([subject(`QueryLatest of ${ASKED} sensors`, 'QueryLatest', latest), subject('QueryAggregate: a day by quarters of an hour', 'QueryAggregate', day), subject(`QueryAggregate: ${HOURS} hours`, 'QueryAggregate', year)], rounds);
  say(`  -> the hours of ${HOURS / DAY} days: ${((ofYear?.p50 ?? Number.NaN) / GOAL).toFixed(2)} times the goal at the median, ${((ofYear?.p99 ?? Number.NaN) / GOAL).toFixed(2)} at the 99th percentile`);
}

function checkYear(answer: Uint8Array): void {
  const buckets = QueryAggregateResponse.decode(answer).sensors[0]?.buckets ?? [];
  if (buckets.length !== HOURS || buckets.some(({ count }) => count !== 60)) throw new Error(`the year shows ${buckets.length} hours instead of ${HOURS}, or not 60 readings in each`);
}

function aggregate(sensorId: string, from: number, to: number, unit: BucketUnit, count: number): Uint8Array {
  const request = QueryAggregateRequest.fromPartial({ sensorIds: [sensorId], from: toTimestamp(from), to: toTimestamp(to), bucket: { unit, count }, fill: AggregateFill.AGGREGATE_FILL_NONE });
  return QueryAggregateRequest.encode(request).finish();
}
