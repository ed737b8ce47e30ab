import { setTimeout as wait } from 'node:timers/promises';
import type { Trap } from '../crash/trapLogger';
import type { Random } from '../soak/random';
import { GATEWAY_POINTS, type GatewayPoint } from './childTraps';
import { ARMING_MS, KillPlan, type PlannedTrap } from './killPlan';
import { type ProofOptions, sizesOf, type Victims } from './options';
import type { Progress } from './progress';
import { Scene } from './scene';
import { type Outcome, settle } from './settle';

const PATIENT_S = 86_400;
const LATEST_MOMENT_MS = 600;
/** How long a place is waited for: callers may be looking for the server that was away. */
const LONGEST_TRAP_MS = 2000;
const LONGEST_ATTACH_MS = 3000;
const LONGEST_AWAY_MS = 250;
// The client looks for a server that was away once a second: one that is always killed before that is never found.
const LONGEST_ANSWER_MS = 1200;
/** Lines of the server's log at which it can be killed. */
const SERVER_LINES = [
  'executions.advanced', 'executions.sent', 'executions.ended', 'executions.reconciled', 'gateway.attached', 'gateway.command_received', 'gateway.command_result', 'gateway.uplink', 'gateway.uplink_taken',
] as const;
type ServerLine = (typeof SERVER_LINES)[number];

/** What a process comes to when it starts, and then no more: it is started with that trap. */
const AT_START: ReadonlySet<ServerLine | GatewayPoint> = new Set(['gateway.attached', 'executions.reconciled', 'attached']);
const NAMES: Readonly<Record<Victims, string>> = { server: 'server killed', gateway: 'gateway killed', both: 'both killed' };

interface Stage {
  readonly scene: Scene;
  readonly random: Random;
  readonly server: KillPlan<ServerLine>;
  readonly gateway: KillPlan<GatewayPoint>;
}

/** Commands and uplinks flow; server or gateway are killed again and again: at every named place of their work once, then by chance there or at any moment. */
export async function proveKills(victims: Victims, options: ProofOptions, random: Random, progress: Progress): Promise<Outcome> {
  const { kills, commands, uplinks } = sizesOf(victims, options);
  const since = performance.now();
  const scene = await Scene.prepare(random, { serverStays: victims === 'gateway', policy: { queueLimit: 1000, deliveryTimeout: PATIENT_S, ackTimeout: PATIENT_S }, gateway: { deliveriesAtOnce: 16, deviceMs: [1, 15] } });
  const stage: Stage = { scene, random, ...plansOf(random, commands / kills, uplinks / kills) };
  const { gateway, callers } = scene;
  gateway.run();
  for (let kill = 1; kill <= kills; kill += 1) {
    if (!(await gateway.isBack(LONGEST_ATTACH_MS))) progress.note('the gateway did not attach in time');
    const flow = (part: number): void => {
      callers.allow(Math.ceil((commands * (kill - 1 + part)) / kills));
      gateway.allow(Math.ceil((uplinks * (kill - 1 + part)) / kills));
    };
    flow(0.5);
    if (victims !== 'gateway') await callers.answers(LONGEST_ANSWER_MS);
    const next = victims === 'both' ? (['server', 'gateway', 'both'] as const)[kill % 3] : victims;
    await (next === 'gateway' ? killGateway : killServer)(stage, next === 'both', () => flow(1));
    progress.step();
  }
  const plans = victims === 'both' ? [stage.server, stage.gateway] : [stage[victims]];
  const points = { reached: plans.reduce((sum, plan) => sum + plan.reachedCount, 0), missing: plans.flatMap((plan): string[] => plan.missing()), kills };
  return await settle(scene, { mustBeDone: victims === 'server', deadlines: false, refusals: false }, { name: NAMES[victims], uplinks, since, points });
}

function plansOf(random: Random, commands: number, uplinks: number): Pick<Stage, 'server' | 'gateway'> {
  const most = (point: string): number => (point.includes('uplink') ? uplinks : commands) / 2;
  return { server: new KillPlan<ServerLine>(SERVER_LINES, random, most), gateway: new KillPlan<GatewayPoint>(GATEWAY_POINTS, random, most) };
}

/** `flow` lets the work of the round go on, once the trap is set. */
async function killGateway({ scene: { gateway }, gateway: plan, random }: Stage, _: boolean, flow: () => void): Promise<void> {
  const trap = plan.next((point) => !AT_START.has(point));
  if (trap) gateway.arm(trap);
  await wait(ARMING_MS);
  flow();
  const died = await gateway.dies(trap ? LONGEST_TRAP_MS : random.next() * LATEST_MOMENT_MS);
  if (trap) plan.tell(trap, died);
  await gateway.kill();
  await wait(random.next() * LONGEST_AWAY_MS);
  gateway.run();
  const atStart = plan.unreached((point) => AT_START.has(point));
  if (!atStart) return;
  gateway.arm(atStart);
  plan.tell(atStart, await gateway.dies(LONGEST_ATTACH_MS));
  await gateway.kill();
  gateway.run();
}

async function killServer({ scene, server: plan, random }: Stage, gatewayToo: boolean, flow: () => void): Promise<void> {
  const { gateway } = scene;
  const trap = plan.next((line) => !AT_START.has(line));
  if (trap) scene.running.victim.arm(trapOf(trap));
  await wait(ARMING_MS);
  flow();
  const died = await scene.serverDies(trap ? LONGEST_TRAP_MS : random.next() * LATEST_MOMENT_MS);
  if (trap) plan.tell(trap, died);
  await scene.killServer();
  if (!gatewayToo) {
    const atStart = plan.unreached((line) => AT_START.has(line));
    if (!atStart) return await scene.startServer();
    return plan.tell(atStart, await scene.startToDie(trapOf(atStart)));
  }
  await gateway.kill();
  const starting = scene.startServer();
  await wait(random.next() * LONGEST_AWAY_MS);
  gateway.run();
  await starting;
}

function trapOf({ point, ...when }: PlannedTrap<ServerLine>): Trap {
  return { event: point, ...when };
}
