import { setTimeout as wait } from 'node:timers/promises';
import type { Execution } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { fromTimestamp } from '../../src/kernel/timestamps';
import { type ExecutionFindings, isFinal, isOpen, readExecutions } from '../crash/executionFindings';
import { readErrorLines } from '../crash/serverLog';
import { pollExecutions } from '../crash/outcome';
import { listAllExecutions, readValues } from './findings';
import { type Allowed, judge } from './judge';
import type { Scene } from './scene';
import { readWorld, uptimeMs } from './worldFile';

/** The end of the work counts as failed after this time without progress. */
export const MAX_IDLE_MS = 40_000;
const POLL_INTERVAL_MS = 50;
const MAX_STOP_MS = 10_000;
// The backoff of the server before it sends a command again that a gateway did not have.
const BACKOFF_MS = 70_000;
const EVERY_DEADLINE_MS = 8 * 86_400_000;

/** The result of one row. */
export interface Outcome extends ExecutionFindings {
  readonly name: string;
  readonly serverKills: number;
  readonly gatewayKills: number;
  readonly acknowledged: number;
  /** How often the client gave up on an unavailable server, and a call was repeated. */
  readonly repeatedCalls: number;
  readonly delivered: number;
  readonly uplinks: number;
  readonly seconds: number;
  /** Error lines in the server log. */
  readonly errors: readonly string[];
  readonly folder: string;
  /** The kill points that were reached; undefined if the row has none. */
  readonly points?: Points;
}

/** The kill points of a row. */
export interface Points {
  readonly reached: number;
  readonly missing: readonly string[];
  /** The number of kills. All points can be reached only if there are at least as many kills. */
  readonly kills: number;
}

/** Waits until all work is finished, with server and gateway running, and judges the result. */
export async function collectOutcome(
  scene: Scene,
  allowed: Allowed,
  row: { readonly name: string; readonly uplinks: number; readonly since: number; readonly points?: Points },
): Promise<Outcome> {
  const { site, gateway, callers, plant } = scene;
  const { clients } = scene.running;
  // Converts times of the server to the machine's uptime; computed before its clock is moved.
  const uptimeOffsetMs = uptimeMs() - Date.now();
  const unfinishedWork = await waitUntilWorkDone(scene, row.uplinks);
  site.advanceClock(scene.running, BACKOFF_MS);
  const read = async (): ReturnType<typeof readExecutions> => await readExecutions(clients, collectExecutionIds(scene));
  await pollExecutions(
    read,
    (execution) => !isOpen(execution),
    () => gateway.showPositions(),
  );
  const executions = await pollExecutions(read, isFinal, () => {
    gateway.showPositions();
    site.advanceClock(scene.running, EVERY_DEADLINE_MS);
  });
  const stopFailures = await stopGateway(scene);
  const world = readWorld(scene.world);
  const record = {
    world,
    executions,
    acknowledged: callers.acknowledged,
    failed: callers.failed,
    listed: await listAllExecutions(clients, plant.actuators),
    readings: await readValues(
      clients,
      scene.meters.map(({ sensorId }) => sensorId),
    ),
    computeDeadline: ({ enqueuedAt }: Execution) =>
      (enqueuedAt ? fromTimestamp(enqueuedAt) + uptimeOffsetMs : 0) +
      (scene.options.policy.deliveryTimeout ?? 0) * 1000,
    getEnd: ({ finishedAt }: Execution) => (finishedAt ? fromTimestamp(finishedAt) + uptimeOffsetMs : 0),
  };
  const found = judge(record, allowed);
  await scene.close();
  return {
    ...found,
    name: row.name,
    lost: [...found.lost, ...unfinishedWork],
    wrong: [...found.wrong, ...stopFailures],
    serverKills: scene.serverKills,
    gatewayKills: gateway.kills,
    acknowledged: callers.acknowledged.size,
    repeatedCalls: callers.repeatedCalls,
    delivered: world.filter(({ kind }) => kind === 'delivered').length,
    uplinks: world.filter(({ kind }) => kind === 'sent').length,
    seconds: (performance.now() - row.since) / 1000,
    errors: readErrorLines(site.folder),
    folder: site.folder,
    ...(row.points && { points: row.points }),
  };
}

/** Lists the executions that callers know and those that devices received, including queries. */
function collectExecutionIds({ callers, world }: Scene): { readonly executionId: string }[] {
  const ids = new Set([...callers.acknowledged.values()].map(({ executionId }) => executionId));
  for (const line of readWorld(world)) if (line.kind === 'delivered') ids.add(line.executionId);
  return [...ids].map((executionId) => ({ executionId }));
}

/**
 * Waits until every call has its response and the server has acknowledged every uplink and command. Returns a description
 * of the unfinished work if there is no progress for 40 s.
 */
async function waitUntilWorkDone({ callers, gateway }: Scene, uplinks: number): Promise<string[]> {
  const calling = callers.waitUntilDone().then(() => true);
  let callsDone = false;
  void calling.then(() => (callsDone = true));
  let text = '';
  for (
    let progress = '', since = performance.now();
    performance.now() - since < MAX_IDLE_MS;
    await wait(POLL_INTERVAL_MS)
  ) {
    const report = await gateway.report();
    if (callsDone && report && report.sent >= uplinks && report.openUplinks === 0 && report.openCommands === 0)
      return [];
    text = report
      ? `${report.sent} of ${uplinks} uplinks stored, ${report.openUplinks} uplinks and ${report.openCommands} commands not acknowledged`
      : 'the gateway does not respond';
    const now = `${text} ${callers.acknowledged.size} ${callers.repeatedCalls}`;
    if (now !== progress) [progress, since] = [now, performance.now()];
  }
  return [`no progress: ${callsDone ? '' : 'calls without a response, '}${text}`];
}

async function stopGateway({ gateway }: Scene): Promise<string[]> {
  const code = await gateway.stop(MAX_STOP_MS);
  return code === 0 ? [] : [`the gateway did not stop cleanly: ${code ?? 'it had to be killed'}`];
}
