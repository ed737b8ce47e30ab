import { setTimeout as wait } from 'node:timers/promises';
import type { Trap } from '../crash/trapLogger';
import type { Random } from '../soak/random';
import { GATEWAY_POINTS, type GatewayPoint } from './childTraps';
import { ARMING_MS, KillPlan, type PlannedTrap } from './killPlan';
import { type ProofOptions, getSizes, type Victims } from './options';
import type { Progress } from './progress';
import { Scene } from './scene';
import { MAX_ATTACH_MS } from './gatewayProcess';
import { type Outcome, collectOutcome } from './outcome';

const PATIENT_S = 86_400;
const MAX_KILL_DELAY_MS = 600;
/** The maximum time to reach a point; callers may still be reconnecting to the server. */
const MAX_TRAP_MS = 2000;
const MAX_OFFLINE_MS = 250;
// The client tries to reconnect once per second, so it would never find a server that is killed sooner.
const MAX_RESPONSE_MS = 10_000;
/** The log lines at which the server can be killed. */
const SERVER_LINES = [
  'executions.transitioned',
  'executions.sent',
  'executions.completed',
  'executions.reconciled',
  'gateway.attached',
  'gateway.command_received',
  'gateway.command_result',
  'gateway.uplink',
  'gateway.uplink_stored',
] as const;
type ServerLine = (typeof SERVER_LINES)[number];

/** Points that a process reaches only at its start; it is started with such a trap. */
const AT_START: ReadonlySet<ServerLine | GatewayPoint> = new Set([
  'gateway.attached',
  'executions.reconciled',
  'attached',
]);
const NAMES: Readonly<Record<Victims, string>> = {
  server: 'server killed',
  gateway: 'gateway killed',
  both: 'both killed',
};

interface Stage {
  readonly scene: Scene;
  readonly random: Random;
  readonly server: KillPlan<ServerLine>;
  readonly gateway: KillPlan<GatewayPoint>;
}

/**
 * Kills server or gateway repeatedly while commands are executed and uplinks are sent: once at every named point, then at
 * random points or moments.
 */
export async function proveKills(
  victims: Victims,
  options: ProofOptions,
  random: Random,
  progress: Progress,
): Promise<Outcome> {
  const { kills, commands, uplinks } = getSizes(victims, options);
  const since = performance.now();
  const scene = await Scene.prepare(random, {
    serverStays: victims === 'gateway',
    policy: { queueLimit: 1000, deliveryTimeout: PATIENT_S, ackTimeout: PATIENT_S },
    gateway: { maxConcurrentDeliveries: 16, deviceMs: [1, 15] },
  });
  const stage: Stage = { scene, random, ...getPlans(random, commands / kills, uplinks / kills) };
  const { gateway, callers } = scene;
  gateway.run();
  for (let kill = 1; kill <= kills; kill += 1) {
    if (!(await gateway.waitUntilOnline(MAX_ATTACH_MS))) progress.note('the gateway did not attach in time');
    const allowWork = (part: number): void => {
      callers.allow(Math.ceil((commands * (kill - 1 + part)) / kills));
      gateway.allow(Math.ceil((uplinks * (kill - 1 + part)) / kills));
    };
    allowWork(0.5);
    if (victims !== 'gateway') await callers.waitForResponse(MAX_RESPONSE_MS);
    const next = victims === 'both' ? (['server', 'gateway', 'both'] as const)[kill % 3] : victims;
    await (next === 'gateway' ? killGateway : killServer)(stage, next === 'both', () => allowWork(1));
    progress.step();
  }
  const plans = victims === 'both' ? [stage.server, stage.gateway] : [stage[victims]];
  const points = {
    reached: plans.reduce((sum, plan) => sum + plan.reachedCount, 0),
    missing: plans.flatMap((plan): string[] => plan.listMissing()),
    kills,
  };
  return await collectOutcome(
    scene,
    { mustSucceed: victims === 'server', deadlines: false, refusals: false },
    { name: NAMES[victims], uplinks, since, points },
  );
}

function getPlans(random: Random, commands: number, uplinks: number): Pick<Stage, 'server' | 'gateway'> {
  const max = (point: string): number => (point.includes('uplink') ? uplinks : commands) / 2;
  return {
    server: new KillPlan<ServerLine>(SERVER_LINES, random, max),
    gateway: new KillPlan<GatewayPoint>(GATEWAY_POINTS, random, max),
  };
}

/** `allowWork` allows the rest of the round's work; it is called once the trap is set. */
async function killGateway(
  { scene: { gateway }, gateway: plan, random }: Stage,
  _: boolean,
  allowWork: () => void,
): Promise<void> {
  const trap = plan.next((point) => !AT_START.has(point));
  if (trap) gateway.arm(trap);
  await wait(ARMING_MS);
  allowWork();
  const hasExited = await gateway.waitForExit(trap ? MAX_TRAP_MS : random.next() * MAX_KILL_DELAY_MS);
  if (trap) plan.recordAttempt(trap, hasExited);
  await gateway.kill();
  await wait(random.next() * MAX_OFFLINE_MS);
  gateway.run();
  const atStart = plan.pickUnreached((point) => AT_START.has(point));
  if (!atStart) return;
  gateway.arm(atStart);
  plan.recordAttempt(atStart, await gateway.waitForExit(MAX_ATTACH_MS));
  await gateway.kill();
  gateway.run();
}

async function killServer(
  { scene, server: plan, random }: Stage,
  alsoKillGateway: boolean,
  allowWork: () => void,
): Promise<void> {
  const { gateway } = scene;
  const trap = plan.next((line) => !AT_START.has(line));
  if (trap) scene.running.victim.arm(getTrap(trap));
  await wait(ARMING_MS);
  allowWork();
  const hasExited = await scene.waitForServerExit(trap ? MAX_TRAP_MS : random.next() * MAX_KILL_DELAY_MS);
  if (trap) plan.recordAttempt(trap, hasExited);
  await scene.killServer();
  if (!alsoKillGateway) {
    const atStart = plan.pickUnreached((line) => AT_START.has(line));
    if (!atStart) return await scene.startServer();
    return plan.recordAttempt(atStart, await scene.startWithTrap(getTrap(atStart)));
  }
  await gateway.kill();
  const starting = scene.startServer();
  await wait(random.next() * MAX_OFFLINE_MS);
  gateway.run();
  await starting;
}

function getTrap({ point, ...when }: PlannedTrap<ServerLine>): Trap {
  return { event: point, ...when };
}
