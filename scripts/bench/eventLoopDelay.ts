import { setTimeout } from 'node:timers/promises';
import { isShort, print } from './measure';
import type { PlantroomServer } from './plantroomServer';
import { fetchMetrics, parseMetric } from './serverMetrics';

/** The maximum delay that is allowed. */
const GOAL_MS = 20;
/** The metric covers at most the last 30 seconds; after this time it belongs to the load only. */
const LOAD_MS = 31_000;

/**
 * Prints the event loop delay of the server while calls are made one after the other, and its ratio to the goal. Not in
 * a short run.
 */
export async function printEventLoopDelay(
  server: PlantroomServer,
  name: string,
  call: () => Promise<unknown>,
): Promise<void> {
  if (isShort) return;
  const end = performance.now() + LOAD_MS;
  for (; performance.now() < end; await setTimeout(1)) await call();
  const metrics = await fetchMetrics(server);
  const read = (percentile: number): number =>
    parseMetric(metrics, 'plantroom_event_loop_delay_seconds', `percentile="${percentile}"`) * 1000;
  print(
    `  event loop delay: ${name.padEnd(46)} p50 ${read(50).toFixed(1)} ms  p99 ${read(99).toFixed(1)} ms  maximum ${read(100).toFixed(1)} ms, ${(read(100) / GOAL_MS).toFixed(2)} times the goal of ${GOAL_MS} ms`,
  );
}
