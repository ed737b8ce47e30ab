import { setTimeout as wait } from 'node:timers/promises';
import type { Execution } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { fromTimestamp } from '../../src/kernel/timestamps';
import { type Audit, isFinal, isOpen, readAll } from '../crash/audit';
import { errorLines } from '../crash/serverLog';
import { until } from '../crash/settle';
import { listAll, readValues } from './findings';
import { type Allowed, judge } from './judge';
import type { Scene } from './scene';
import { readWorld, uptimeMs } from './worldFile';

const LONGEST_STANDSTILL_MS = 15_000;
const LOOK_EVERY_MS = 50;
const LONGEST_STOP_MS = 10_000;
// What the server waits for before it sends again what a gateway did not have.
const BACKOFF_MS = 70_000;
const EVERY_DEADLINE_MS = 8 * 86_400_000;

/** What came of one row. */
export interface Outcome extends Audit {
  readonly name: string;
  readonly serverKills: number;
  readonly gatewayKills: number;
  readonly acknowledged: number;
  /** How often the client gave up on a server that was away, and a call was made again. */
  readonly calledAgain: number;
  readonly delivered: number;
  readonly uplinks: number;
  readonly seconds: number;
  /** Error lines of its servers. */
  readonly errors: readonly string[];
  readonly folder: string;
  /** At how many named places a process was killed; undefined: there are none in this row. */
  readonly points?: Points;
}

/** The places at which processes were to be killed. */
export interface Points {
  readonly reached: number;
  readonly missing: readonly string[];
  /** How often the row kills: enough for every place where that is more. */
  readonly kills: number;
}

/** Lets everything come to its end, with server and gateway there, and judges it. */
export async function settle(scene: Scene, allowed: Allowed, row: { readonly name: string; readonly uplinks: number; readonly since: number; readonly points?: Points }): Promise<Outcome> {
  const { site, gateway, callers, plant } = scene;
  const { clients } = scene.running;
  // Times of the server become times of the machine before its clock is put forward.
  const toUptime = uptimeMs() - Date.now();
  const stuck = await settleWork(scene, row.uplinks);
  site.skip(scene.running, BACKOFF_MS);
  const read = async (): ReturnType<typeof readAll> => await readAll(clients, executionsOf(scene));
  await until(read, (execution) => !isOpen(execution), () => gateway.show());
  const executions = await until(read, isFinal, () => {
    gateway.show();
    site.skip(scene.running, EVERY_DEADLINE_MS);
  });
  const unended = await endGateway(scene);
  const world = readWorld(scene.world);
  const facts = {
    world, executions,
    acknowledged: callers.acknowledged,
    failed: callers.failed,
    listed: await listAll(clients, plant.actuators),
    readings: await readValues(clients, scene.meters.map(({ sensorId }) => sensorId)),
    deadlineOf: ({ enqueuedAt }: Execution) => (enqueuedAt ? fromTimestamp(enqueuedAt) + toUptime : 0) + (scene.options.policy.deliveryTimeout ?? 0) * 1000,
    endOf: ({ finishedAt }: Execution) => (finishedAt ? fromTimestamp(finishedAt) + toUptime : 0),
  };
  const found = judge(facts, allowed);
  await scene.end();
  return {
    ...found,
    name: row.name,
    lost: [...found.lost, ...stuck],
    wrong: [...found.wrong, ...unended],
    serverKills: scene.serverKills,
    gatewayKills: gateway.kills,
    acknowledged: callers.acknowledged.size,
    calledAgain: callers.calledAgain,
    delivered: world.filter(({ kind }) => kind === 'delivered').length,
    uplinks: world.filter(({ kind }) => kind === 'sent').length,
    seconds: (performance.now() - row.since) / 1000,
    errors: errorLines(site.folder),
    folder: site.folder,
    ...(row.points && { points: row.points }),
  };
}

/** All that callers were told of and all that devices were told, queries with it. */
function executionsOf({ callers, world }: Scene): { readonly executionId: string }[] {
  const ids = new Set([...callers.acknowledged.values()].map(({ executionId }) => executionId));
  for (const line of readWorld(world)) if (line.kind === 'delivered') ids.add(line.executionId);
  return [...ids].map((executionId) => ({ executionId }));
}

/** Waits until every call has its answer, every uplink is kept, and the server has acknowledged all of them. What stands still is told. */
async function settleWork({ callers, gateway }: Scene, uplinks: number): Promise<string[]> {
  const calling = callers.done().then(() => true);
  let called = false;
  void calling.then(() => (called = true));
  let text = '';
  for (let progress = '', since = performance.now(); performance.now() - since < LONGEST_STANDSTILL_MS; await wait(LOOK_EVERY_MS)) {
    const report = await gateway.report();
    if (called && report && report.sent >= uplinks && report.openUplinks === 0 && report.openCommands === 0) return [];
    text = report ? `${report.sent} of ${uplinks} uplinks kept, ${report.openUplinks} uplinks and ${report.openCommands} commands not acknowledged` : 'the gateway does not answer';
    const now = `${text} ${callers.acknowledged.size} ${callers.failed.length}`;
    if (now !== progress) [progress, since] = [now, performance.now()];
  }
  return [`everything stands still: ${called ? '' : 'calls without an answer, '}${text}`];
}

async function endGateway({ gateway }: Scene): Promise<string[]> {
  const code = await gateway.stop(LONGEST_STOP_MS);
  return code === 0 ? [] : [`the gateway did not end in peace: ${code ?? 'it had to be killed'}`];
}
