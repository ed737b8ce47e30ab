import { setTimeout as wait } from 'node:timers/promises';
import type { Random } from '../soak/random';
import type { ProofOptions } from './options';
import type { Progress } from './progress';
import { Scene } from './scene';
import { type Outcome, settle } from './settle';

const HOUR_MS = 3_600_000;
const DELIVERY_TIMEOUT_S = 2;
/** Two at a time of ten: the last would begin four seconds after the first, two after its deadline. */
const GATEWAY = { deliveriesAtOnce: 2, deviceMs: [900, 1000] } as const;
const ROUND_MS = 5200;
const AWAY_MS = 2500;
const LATEST_MOMENT_MS = 1500;
const UPLINKS_IN_A_ROUND = 20;

/** What happens in a round beside the jump of the clock. */
const TROUBLES = ['gateway restarts', 'server away', 'gateway away', 'none', 'gateway restarts', 'none'] as const;
/** A run of few kills is to be short: each trouble once, and the jump beside each of them. */
const FEW_KILLS = 20;
const FEW_ROUNDS = 3;

/** How many rounds it has. */
export function clockRounds({ kills }: Pick<ProofOptions, 'kills'>): number {
  return kills < FEW_KILLS ? FEW_ROUNDS : TROUBLES.length;
}

/** The gateway's time of day jumps forward and back by an hour, in the middle of work and over restarts: a deadline is no time of day. */
export async function proveClock(options: ProofOptions, random: Random, progress: Progress): Promise<Outcome> {
  const since = performance.now();
  const rounds = clockRounds(options);
  const scene = await Scene.prepare(random, { serverStays: false, policy: { queueLimit: 1000, deliveryTimeout: DELIVERY_TIMEOUT_S, ackTimeout: 30 }, gateway: GATEWAY });
  const { gateway } = scene;
  gateway.run();
  for (const [at, trouble] of TROUBLES.slice(0, rounds).entries()) {
    if (at === 0) await gateway.attaches(0, LATEST_MOMENT_MS);
    gateway.allow((at + 1) * UPLINKS_IN_A_ROUND);
    const over = wait(ROUND_MS);
    await scene.callers.callAll();
    await wait(random.next() * LATEST_MOMENT_MS);
    gateway.setClock(random.oneOf([HOUR_MS, -HOUR_MS, at % 2 === 0 ? HOUR_MS : 0]));
    await TROUBLE[trouble](scene);
    await over;
    progress.step();
  }
  return await settle(scene, { mustBeDone: false, deadlines: true, refusals: false }, { name: 'clock jumps', uplinks: rounds * UPLINKS_IN_A_ROUND, since });
}

const TROUBLE: Readonly<Record<(typeof TROUBLES)[number], (scene: Scene) => Promise<void>>> = {
  none: async () => {},
  'gateway restarts': async ({ gateway }) => {
    await gateway.kill();
    gateway.run();
  },
  'gateway away': async ({ gateway }) => {
    await gateway.kill();
    await wait(AWAY_MS);
    gateway.run();
  },
  'server away': async (scene) => {
    await scene.killServer();
    await wait(AWAY_MS);
    await scene.startServer();
  },
};
