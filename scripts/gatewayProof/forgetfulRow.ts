import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Random } from '../soak/random';
import { GATEWAY_POINTS, type GatewayPoint } from './childTraps';
import { ForgetfulServer } from './forgetfulServer';
import { GatewayProcess, MAX_ATTACH_MS } from './gatewayProcess';
import { judgeForgetful } from './judgeForgetful';
import { ARMING_MS, KillPlan } from './killPlan';
import type { ProofOptions } from './options';
import type { Progress } from './progress';
import { MAX_IDLE_MS, type Outcome } from './outcome';
import { readWorld, type WorldLine } from './worldFile';

const DEVICES = 10;
const METERS: readonly string[] = ['meter-0', 'meter-1'];
const COMMANDS_PER_ROUND = 20;
const UPLINKS_PER_ROUND = 60;
const MAX_KILL_DELAY_MS = 300;
const MAX_TRAP_MS = 2000;
const MAX_STOP_MS = 10_000;
const POLL_INTERVAL_MS = 50;

/** Returns how often the gateway is killed: once at every point, and a few times more. */
export function getForgetfulKills({ kills }: ProofOptions): number {
  return GATEWAY_POINTS.length + Math.ceil(kills / 5);
}

/**
 * Uses a server that repeats commands that the gateway already has or has finished, and that cuts the link, and kills the
 * gateway. No command may be carried out twice, and the gateway may not contradict an earlier report.
 */
export async function proveForgetful(options: ProofOptions, random: Random, progress: Progress): Promise<Outcome> {
  const since = performance.now();
  const kills = getForgetfulKills(options);
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-crash-'));
  const server = new ForgetfulServer(random);
  const orders = {
    apiKey: 'plr_key',
    organizationId: 'organization',
    connectionId: 'connection',
    store: join(folder, 'gateway.db'),
    world: join(folder, 'world.jsonl'),
    maxConcurrentDeliveries: 4,
    deviceMs: [1, 15],
    meters: METERS,
  } as const;
  const gateway = new GatewayProcess({
    ...orders,
    address: await server.start(),
    seed: Math.floor(random.next() * 1e9),
  });
  const plan = new KillPlan(
    GATEWAY_POINTS,
    random,
    (point) => (point.includes('uplink') ? UPLINKS_PER_ROUND : COMMANDS_PER_ROUND) / 2,
  );
  gateway.run();
  for (let kill = 1; kill <= kills; kill += 1) {
    if (!(await gateway.waitUntilOnline(MAX_ATTACH_MS))) progress.note('the gateway did not attach in time');
    await killOnce({ server, gateway, plan, random }, kill);
    progress.step();
  }
  const unfinishedWork = await waitUntilDone(server, gateway, kills * UPLINKS_PER_ROUND);
  const code = await gateway.stop(MAX_STOP_MS);
  server.stop();
  const world = readWorld(orders.world);
  const found = judgeForgetful(server, world, METERS);
  return {
    ...found,
    lost: [...found.lost, ...unfinishedWork],
    wrong: [
      ...found.wrong,
      ...(code === 0 ? [] : [`the gateway did not stop cleanly: ${code ?? 'it had to be killed'}`]),
    ],
    name: 'server forgets',
    serverKills: 0,
    gatewayKills: gateway.kills,
    acknowledged: server.ordered.length,
    repeatedCalls: server.resentCount,
    delivered: getCount(world, 'delivered'),
    uplinks: getCount(world, 'sent'),
    seconds: (performance.now() - since) / 1000,
    errors: [],
    folder,
    points: { reached: plan.reachedCount, missing: plan.listMissing(), kills },
  };
}

interface Stage {
  readonly server: ForgetfulServer;
  readonly gateway: GatewayProcess;
  readonly plan: KillPlan<GatewayPoint>;
  readonly random: Random;
}

async function killOnce({ server, gateway, plan, random }: Stage, round: number): Promise<void> {
  const trap = plan.next();
  if (trap) gateway.arm(trap);
  await wait(ARMING_MS);
  if (trap?.point === 'attached') server.cut();
  gateway.allow(round * UPLINKS_PER_ROUND);
  for (let n = (round - 1) * COMMANDS_PER_ROUND; n < round * COMMANDS_PER_ROUND; n += 1)
    server.order(`e${n}`, `valve-${n % DEVICES}`, n);
  const hasExited = await gateway.waitForExit(trap ? MAX_TRAP_MS : random.next() * MAX_KILL_DELAY_MS);
  if (trap) plan.recordAttempt(trap, hasExited);
  await gateway.kill();
  gateway.run();
}

function getCount(world: readonly WorldLine[], wanted: WorldLine['kind']): number {
  return world.filter(({ kind }) => kind === wanted).length;
}

/** Waits until all work is finished, on a new link to a server that no longer forgets anything. */
async function waitUntilDone(server: ForgetfulServer, gateway: GatewayProcess, uplinks: number): Promise<string[]> {
  server.isReliable = true;
  await gateway.waitUntilOnline(MAX_ATTACH_MS);
  server.cut();
  let text = '';
  for (
    let progress = '', since = performance.now();
    performance.now() - since < MAX_IDLE_MS;
    await wait(POLL_INTERVAL_MS)
  ) {
    const report = await gateway.report();
    const open = server.ordered.filter(({ isAcknowledged }) => !isAcknowledged).length;
    if (report && open === 0 && report.sent >= uplinks && report.openUplinks === 0 && report.openCommands === 0)
      return [];
    text = `${open} commands without a result, ${report ? `${report.sent} of ${uplinks} uplinks stored, ${report.openUplinks} uplinks and ${report.openCommands} commands not acknowledged` : 'the gateway does not respond'}`;
    if (text !== progress) [progress, since] = [text, performance.now()];
  }
  return [`no progress: ${text}`];
}
