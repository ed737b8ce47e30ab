import { setTimeout as pause } from 'node:timers/promises';
import {
  Execution,
  ExecutionState,
  GetExecutionRequest,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import {
  AggregateFunction,
  BucketUnit,
  QueryAggregateRequest,
  QueryAggregateResponse,
} from '../../src/gen/sensorquery/v1/sensor_query_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import { COMMANDS } from '../bench/site';
import type { Finding } from './analysis';
import type { GrpcClient } from './grpcClient';
import type { SoakSite } from './site';
import { TIMERS } from './standardLoad';

const S = ExecutionState;
const OPEN: ReadonlySet<ExecutionState> = new Set([
  S.EXECUTION_STATE_ENQUEUED,
  S.EXECUTION_STATE_IN_TRANSIT,
  S.EXECUTION_STATE_DELIVERED,
  S.EXECUTION_STATE_ACCEPTED,
]);
/** Executions wait behind those of a silent device. */
const MAX_DELAY_MS = 4 * (TIMERS.deliveryTimeout + TIMERS.ackTimeout) * 1000;
const MAX_BROKER_MS = 20_000;
const POLL_INTERVAL_MS = 500;
const HOUR_MS = 3_600_000;
const MAX_CONCURRENT = 16;
const SENSOR_BATCH_SIZE = 40;

/** Checks that every accepted execution exists and becomes final. */
export async function checkExecutions(site: SoakSite, grpc: GrpcClient): Promise<Finding> {
  const began = performance.now();
  let open = [...site.executions];
  const lost: string[] = [];
  for (;;) {
    const unfinished: string[] = [];
    const ids = open.values();
    const checkNext = async (): Promise<void> => {
      for (const executionId of ids) {
        const state = await findState(grpc, executionId);
        if (state === undefined) lost.push(executionId);
        else if (OPEN.has(state)) unfinished.push(executionId);
      }
    };
    await Promise.all(Array.from({ length: MAX_CONCURRENT }, checkNext)); // they share one iterator
    open = unfinished;
    if (open.length === 0 || performance.now() - began > MAX_DELAY_MS) break;
    await pause(POLL_INTERVAL_MS);
  }
  const ok = lost.length === 0 && open.length === 0;
  return {
    name: 'executions',
    ok,
    text: `${site.executions.length} accepted, ${site.commands} reached the gateway; ${lost.length} lost, ${open.length} not final ${MAX_DELAY_MS / 1000} s after the load${ok ? '' : `: ${[...lost, ...open].slice(0, 5).join(', ')}`}`,
  };
}

/** Checks that every acknowledged uplink is stored. Uplinks at the broker may still be on their way. */
export async function checkUplinks(site: SoakSite, grpc: GrpcClient): Promise<Finding> {
  const began = performance.now();
  const sent = [...site.uplinks.values()].reduce((sum, count) => sum + count, 0);
  for (;;) {
    const missing = await findMissingUplinks(site, grpc);
    const count = missing.reduce((sum, { count: n }) => sum + n, 0);
    if (count === 0) return { name: 'uplinks', ok: true, text: `${sent} acknowledged, 0 lost` };
    if (performance.now() - began > MAX_BROKER_MS)
      return {
        name: 'uplinks',
        ok: false,
        text: `${sent} acknowledged, ${count} of ${missing.length} meters not stored`,
      };
    await pause(POLL_INTERVAL_MS);
  }
}

async function findMissingUplinks(
  site: SoakSite,
  grpc: GrpcClient,
): Promise<readonly { readonly sensorId: string; readonly count: number }[]> {
  const sensors = [...site.uplinks.keys()];
  const missing: { sensorId: string; count: number }[] = [];
  for (let at = 0; at < sensors.length; at += SENSOR_BATCH_SIZE) {
    const batch = sensors.slice(at, at + SENSOR_BATCH_SIZE);
    const stored = await countReadings(grpc, batch);
    for (const sensorId of batch) {
      const count = (site.uplinks.get(sensorId) ?? 0) - (stored.get(sensorId) ?? 0);
      if (count > 0) missing.push({ sensorId, count });
    }
  }
  return missing;
}

async function countReadings(grpc: GrpcClient, sensorIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const now = Date.now();
  const request = QueryAggregateRequest.fromPartial({
    sensorIds: [...sensorIds],
    from: toTimestamp(now - 24 * HOUR_MS),
    to: toTimestamp(now + HOUR_MS),
    bucket: { count: 1, unit: BucketUnit.BUCKET_UNIT_DAY },
    functions: [AggregateFunction.AGGREGATE_FUNCTION_COUNT],
  });
  const { sensors } = QueryAggregateResponse.decode(
    await grpc.call(
      '/sensorquery.v1.SensorQueryService/QueryAggregate',
      QueryAggregateRequest.encode(request).finish(),
    ),
  );
  return new Map(
    sensors.map(({ sensorId, buckets }) => [sensorId, buckets.reduce((sum, { count }) => sum + (count ?? 0), 0)]),
  );
}

async function findState(grpc: GrpcClient, executionId: string): Promise<ExecutionState | undefined> {
  try {
    return Execution.decode(
      await grpc.call(
        `${COMMANDS}/GetExecution`,
        GetExecutionRequest.encode(GetExecutionRequest.fromPartial({ executionId })).finish(),
      ),
    ).state;
  } catch {
    return undefined; // the execution was acknowledged, so an error means that it is lost
  }
}
