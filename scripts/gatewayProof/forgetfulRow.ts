import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Random } from '../soak/random';
import { GATEWAY_POINTS, type GatewayPoint } from './childTraps';
import { ForgetfulServer } from './forgetfulServer';
import { GatewayProcess } from './gatewayProcess';
import { judgeForgetful } from './judgeForgetful';
import { ARMING_MS, KillPlan } from './killPlan';
import type { ProofOptions } from './options';
import type { Progress } from './progress';
import type { Outcome } from './settle';
import { readWorld, type WorldLine } from './worldFile';

const DEVICES = 10;
const METERS: readonly string[] = ['meter-0', 'meter-1'];
const COMMANDS_IN_A_ROUND = 20;
const UPLINKS_IN_A_ROUND = 60;
const LATEST_MOMENT_MS = 300;
const LONGEST_TRAP_MS = 2000;
const LONGEST_ATTACH_MS = 3000;
const LONGEST_STANDSTILL_MS = 15_000;
const LONGEST_STOP_MS = 10_000;
const LOOK_EVERY_MS = 50;

/** How often its gateway is killed: at every place once, and a few times more. */
export function forgetfulKills({ kills }: ProofOptions): number {
  return GATEWAY_POINTS.length + Math.ceil(kills / 5);
}

/** The server sends commands again that the gateway has or has done, and cuts the link in between; the gateway is killed. Nothing is done twice, and nothing that was told is taken back. */
export async function proveForgetful(options: ProofOptions, random: Random, progress: Progress): Promise<Outcome> {
  const since = performance.now();
  const kills = forgetfulKills(options);
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-crash-'));
  const server = new ForgetfulServer(random);
  const orders = { apiKey: 'plr_key', organizationId: 'organization', connectionId: 'connection', store: join(folder, 'gateway.db'), world: join(folder, 'world.jsonl'), deliveriesAtOnce: 4, deviceMs: [1, 15], meters: METERS } as const;
  const gateway = new GatewayProcess({ ...orders, address: await server.start(), seed: Math.floor(random.next() * 1e9) });
  const plan = new KillPlan(GATEWAY_POINTS, random, (point) => (point.includes('uplink') ? UPLINKS_IN_A_ROUND : COMMANDS_IN_A_ROUND) / 2);
  gateway.run();
  for (let kill = 1; kill <= kills; kill += 1) {
    if (!(await gateway.isBack(LONGEST_ATTACH_MS))) progress.note('the gateway did not attach in time');
    await killOnce({ server, gateway, plan, random }, kill);
    progress.step();
  }
  const stuck = await settle(server, gateway, kills * UPLINKS_IN_A_ROUND);
  const code = await gateway.stop(LONGEST_STOP_MS);
  server.stop();
  const world = readWorld(orders.world);
  const found = judgeForgetful(server, world, METERS);
  return {
    ...found,
    lost: [...found.lost, ...stuck],
    wrong: [...found.wrong, ...(code === 0 ? [] : [`the gateway did not end in peace: ${code ?? 'it had to be killed'}`])],
    name: 'server forgets',
    serverKills: 0,
    gatewayKills: gateway.kills,
    acknowledged: server.ordered.length,
    calledAgain: server.sentAgain,
    delivered: countOf(world, 'delivered'),
    uplinks: countOf(world, 'sent'),
    seconds: (performance.now() - since) / 1000,
    errors: [],
    folder,
    points: { reached: plan.reachedCount, missing: plan.missing(), kills },
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
  gateway.allow(round * UPLINKS_IN_A_ROUND);
  for (let n = (round - 1) * COMMANDS_IN_A_ROUND; n < round * COMMANDS_IN_A_ROUND; n += 1) server.order(`e${n}`, `valve-${n % DEVICES}`, n);
  const died = await gateway.dies(trap ? LONGEST_TRAP_MS : random.next() * LATEST_MOMENT_MS);
  if (trap) plan.tell(trap, died);
  await gateway.kill();
  gateway.run();
}

function countOf(world: readonly WorldLine[], wanted: WorldLine['kind']): number {
  return world.filter(({ kind }) => kind === wanted).length;
}

/** Lets everything come to its end, on a new link to a server that forgets nothing more. */
async function settle(server: ForgetfulServer, gateway: GatewayProcess, uplinks: number): Promise<string[]> {
  server.isCalm = true;
  await gateway.isBack(LONGEST_ATTACH_MS);
  server.cut();
  let text = '';
  for (let progress = '', since = performance.now(); performance.now() - since < LONGEST_STANDSTILL_MS; await wait(LOOK_EVERY_MS)) {
    const report = await gateway.report();
    const open = server.ordered.filter(({ isAcknowledged }) => !isAcknowledged).length;
    if (report && open === 0 && report.sent >= uplinks && report.openUplinks === 0 && report.openCommands === 0) return [];
    text = `${open} commands without a result, ${report ? `${report.sent} of ${uplinks} uplinks kept, ${report.openUplinks} uplinks and ${report.openCommands} commands not acknowledged` : 'the gateway does not answer'}`;
    if (text !== progress) [progress, since] = [text, performance.now()];
  }
  return [`everything stands still: ${text}`];
}
