import { print } from './measure';
import type { PlantroomServer } from './plantroomServer';
import { fetchMetrics, parseMetric } from './serverMetrics';

/** The sampling interval of the metric; an event loop without any delay shows this value. */
const RESOLUTION_MS = 10;

/** The maximum delay that is allowed. */
const GOAL_MS = 20;

/**
 * Prints the event loop delay of the server during a load, and its ratio to the goal. Each scrape resets the metrics of
 * the event loop.
 */
export async function printEventLoopDelay(
  server: PlantroomServer,
  name: string,
  load: () => Promise<unknown>,
): Promise<void> {
  await fetchMetrics(server);
  await load();
  const metrics = await fetchMetrics(server);
  const read = (field: string): number =>
    Math.max(0, parseMetric(metrics, `nodejs_eventloop_lag_${field}_seconds`) * 1000 - RESOLUTION_MS);
  print(
    `  event loop delay: ${name.padEnd(46)} p50 ${read('p50').toFixed(1)} ms  p99 ${read('p99').toFixed(1)} ms  maximum ${read('max').toFixed(1)} ms, ${(read('max') / GOAL_MS).toFixed(2)} times the goal of ${GOAL_MS} ms`,
  );
}
