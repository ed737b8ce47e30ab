import { setTimeout as wait } from 'node:timers/promises';
import type { Trap } from '../crash/trapLogger';
import type { Random } from '../soak/random';
import { GATEWAY_POINTS } from './childTraps';
import type { ProofOptions } from './options';
import type { Progress } from './progress';
import { Scene } from './scene';
import { type Outcome, settle } from './settle';

/** Who is killed. */
export type Victims = 'server' | 'gateway' | 'both';

const PATIENT_S = 86_400;
const LATEST_MOMENT_MS = 600;
const LONGEST_ATTACH_MS = 3000;
const LONGEST_AWAY_MS = 250;
// The client looks for a server that was away once a second: one that is always killed before that is never found.
const LONGEST_ANSWER_MS = 1200;
const MOST_TURNS = 8;
/** Lines of the server's log at which it can be killed, and how many of them a round has about: of its commands, of its uplinks. */
const SERVER_LINES = [
  'executions.advanced', 'executions.sent', 'executions.ended', 'executions.reconciled', 'gateway.attached', 'gateway.command_received', 'gateway.command_result', 'gateway.uplink', 'gateway.uplink_taken',
] as const;

/** Commands and uplinks flow; server or gateway are killed again and again: half of the times at any moment, half at a named place of their work. */
export async function proveKills(victims: Victims, options: ProofOptions, random: Random, progress: Progress): Promise<Outcome> {
  const { kills, commands, uplinks } = sizesOf(victims, options);
  const since = performance.now();
  const scene = await Scene.prepare(random, { serverStays: victims === 'gateway', policy: { queueLimit: 1000, deliveryTimeout: PATIENT_S, ackTimeout: PATIENT_S }, gateway: { deliveriesAtOnce: 16, deviceMs: [1, 15] } });
  const { gateway, callers } = scene;
  gateway.run();
  let before = 0;
  for (let kill = 1; kill <= kills; kill += 1) {
    if (!(await gateway.attaches(before, LONGEST_ATTACH_MS))) progress.note('the gateway did not attach in time');
    before = gateway.attached;
    callers.allow(Math.ceil((commands * kill) / kills));
    gateway.allow(Math.ceil((uplinks * kill) / kills));
    if (victims !== 'gateway') await callers.answers(LONGEST_ANSWER_MS);
    const next = victims === 'both' ? (['server', 'gateway', 'both'] as const)[kill % 3] : victims;
    await killOne(scene, next ?? 'server', random, { commands: commands / kills, uplinks: uplinks / kills });
    progress.step();
  }
  const mustBeDone = victims === 'server';
  return await settle(scene, { mustBeDone, deadlines: false, refusals: false }, { name: NAMES[victims], uplinks, since });
}

const NAMES: Readonly<Record<Victims, string>> = { server: 'server killed', gateway: 'gateway killed', both: 'both killed' };

/** Where both are killed it is done a fifth as often. */
export function sizesOf(victims: Victims, { kills, commands, uplinks }: ProofOptions): { kills: number; commands: number; uplinks: number } {
  const part = victims === 'both' ? 5 : 1;
  return { kills: Math.ceil(kills / part), commands: Math.ceil(commands / part), uplinks: Math.ceil(uplinks / part) };
}

interface Flow {
  readonly commands: number;
  readonly uplinks: number;
}

async function killOne(scene: Scene, victims: Victims, random: Random, flow: Flow): Promise<void> {
  const { gateway, running } = scene;
  const traps = random.chance(0.5);
  const moment = random.next() * LATEST_MOMENT_MS;
  if (traps && victims === 'gateway') gateway.arm({ point: random.oneOf(GATEWAY_POINTS), nth: nth(random, flow.commands), turns: turns(random) });
  if (traps && victims !== 'gateway') running.victim.arm(serverTrap(random, flow));
  if (victims === 'gateway') {
    await (traps ? gateway.dies(LATEST_MOMENT_MS) : wait(moment));
    await gateway.kill();
    await wait(random.next() * LONGEST_AWAY_MS);
    return gateway.run();
  }
  await (traps ? Promise.race([running.victim.ended, wait(LATEST_MOMENT_MS, undefined, { ref: false })]) : wait(moment));
  await scene.killServer();
  if (victims === 'both') await gateway.kill();
  const starting = scene.startServer();
  if (victims === 'both') {
    await wait(random.next() * LONGEST_AWAY_MS);
    gateway.run();
  }
  await starting;
}

function serverTrap(random: Random, { commands, uplinks }: Flow): Trap {
  const event = random.oneOf(SERVER_LINES);
  return { event, nth: event === 'gateway.attached' ? 1 : nth(random, event.startsWith('gateway.uplink') ? uplinks : commands), turns: turns(random) };
}

function nth(random: Random, most: number): number {
  return 1 + Math.floor(random.next() * most * 0.8);
}

function turns(random: Random): number {
  return random.chance(0.5) ? 0 : Math.floor(random.next() * MOST_TURNS);
}
