import { setTimeout as pause } from 'node:timers/promises';
import { Execution, ExecutionState, GetExecutionRequest } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { AggregateFunction, BucketUnit, QueryAggregateRequest, QueryAggregateResponse } from '../../src/gen/sensorquery/v1/sensor_query_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import { COMMANDS } from '../bench/site';
import type { Finding } from './analysis';
import type { GrpcClient } from './grpcClient';
import type { SoakSite } from './site';
import { TIMERS } from './standardLoad';

const S = ExecutionState;
const OPEN: ReadonlySet<ExecutionState> = new Set([S.EXECUTION_STATE_ENQUEUED, S.EXECUTION_STATE_IN_TRANSIT, S.EXECUTION_STATE_DELIVERED, S.EXECUTION_STATE_ACCEPTED]);
/** Behind a silent device others wait their turn. */
const LONGEST_MS = 4 * (TIMERS.deliveryTimeout + TIMERS.ackTimeout) * 1000;
const LONGEST_BROKER_MS = 20_000;
const LOOK_MS = 500;
const HOUR_MS = 3_600_000;
const AT_ONCE = 16;
const SENSORS_AT_ONCE = 40;

/** Whether every execution that the server took is there and has come to its end. */
export async function executionsEnded(site: SoakSite, grpc: GrpcClient): Promise<Finding> {
  const began = performance.now();
  let open = [...site.executions];
  const lost: string[] = [];
  for (;;) {
    const still: string[] = [];
    const ids = open.values();
    const look = async (): Promise<void> => {
      for (const executionId of ids) {
        const state = await stateOf(grpc, executionId);
        if (state === undefined) lost.push(executionId);
        else if (OPEN.has(state)) still.push(executionId);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, look)); // they share one iterator
    open = still;
    if (open.length === 0 || performance.now() - began > LONGEST_MS) break;
    await pause(LOOK_MS);
  }
  const ok = lost.length === 0 && open.length === 0;
  return { name: 'executions', ok, text: `${site.executions.length} taken, ${site.commands} reached the gateway; ${lost.length} lost, ${open.length} not ended ${LONGEST_MS / 1000} s after the load${ok ? '' : `: ${[...lost, ...open].slice(0, 5).join(', ')}`}` };
}

/** Whether every uplink that was acknowledged is stored. What the broker has may still be on its way. */
export async function uplinksStored(site: SoakSite, grpc: GrpcClient): Promise<Finding> {
  const began = performance.now();
  const sent = [...site.uplinks.values()].reduce((sum, count) => sum + count, 0);
  for (;;) {
    const missing = await missingUplinks(site, grpc);
    const count = missing.reduce((sum, { count: n }) => sum + n, 0);
    if (count === 0) return { name: 'uplinks', ok: true, text: `${sent} acknowledged, 0 lost` };
    if (performance.now() - began > LONGEST_BROKER_MS) return { name: 'uplinks', ok: false, text: `${sent} acknowledged, ${count} not stored: of ${missing.length} meters` };
    await pause(LOOK_MS);
  }
}

async function missingUplinks(site: SoakSite, grpc: GrpcClient): Promise<readonly { readonly sensorId: string; readonly count: number }[]> {
  const sensors = [...site.uplinks.keys()];
  const missing: { sensorId: string; count: number }[] = [];
  for (let at = 0; at < sensors.length; at += SENSORS_AT_ONCE) {
    const some = sensors.slice(at, at + SENSORS_AT_ONCE);
    const stored = await countsOf(grpc, some);
    for (const sensorId of some) {
      const count = (site.uplinks.get(sensorId) ?? 0) - (stored.get(sensorId) ?? 0);
      if (count > 0) missing.push({ sensorId, count });
    }
  }
  return missing;
}

async function countsOf(grpc: GrpcClient, sensorIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const now = Date.now();
  const request = QueryAggregateRequest.fromPartial({ sensorIds: [...sensorIds], from: toTimestamp(now - 24 * HOUR_MS), to: toTimestamp(now + HOUR_MS), bucket: { count: 1, unit: BucketUnit.BUCKET_UNIT_DAY }, functions: [AggregateFunction.AGGREGATE_FUNCTION_COUNT] });
  const { sensors } = QueryAggregateResponse.decode(await grpc.ask('/sensorquery.v1.SensorQueryService/QueryAggregate', QueryAggregateRequest.encode(request).finish()));
  return new Map(sensors.map(({ sensorId, buckets }) => [sensorId, buckets.reduce((sum, { count }) => sum + (count ?? 0), 0)]));
}

async function stateOf(grpc: GrpcClient, executionId: string): Promise<ExecutionState | undefined> {
  try {
    return Execution.decode(await grpc.ask(`${COMMANDS}/GetExecution`, GetExecutionRequest.encode(GetExecutionRequest.fromPartial({ executionId })).finish())).state;
  } catch {
    return undefined; // it was acknowledged, so a refusal is a loss
  }
}
