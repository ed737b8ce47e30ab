import { setTimeout as wait } from 'node:timers/promises';
import type { Random } from '../soak/random';
import type { ProofOptions } from './options';
import type { Progress } from './progress';
import { Scene } from './scene';
import { type Outcome, collectOutcome } from './outcome';

const HOUR_MS = 3_600_000;
const DELIVERY_TIMEOUT_S = 2;
/** Two of ten deliveries run concurrently: the last one would start 4 s after the first, 2 s after its deadline. */
const GATEWAY = { maxConcurrentDeliveries: 2, deviceMs: [900, 1000] } as const;
const ROUND_MS = 5200;
const OFFLINE_MS = 2500;
const MAX_KILL_DELAY_MS = 1500;
const UPLINKS_PER_ROUND = 20;

/** What happens in a round in addition to the clock jump. */
const DISTURBANCES = ['gateway restarts', 'server away', 'gateway away', 'none', 'gateway restarts', 'none'] as const;
/** Runs with fewer kills are short: each disturbance occurs once. */
const FEW_KILLS = 20;
const FEW_ROUNDS = 3;

/** Returns the number of rounds. */
export function getClockRounds({ kills }: Pick<ProofOptions, 'kills'>): number {
  return kills < FEW_KILLS ? FEW_ROUNDS : DISTURBANCES.length;
}

/**
 * Moves the gateway's time of day forward and back by an hour, during work and across restarts. Deadlines must not depend
 * on the time of day.
 */
export async function proveClock(options: ProofOptions, random: Random, progress: Progress): Promise<Outcome> {
  const since = performance.now();
  const rounds = getClockRounds(options);
  const scene = await Scene.prepare(random, {
    serverStays: false,
    policy: { queueLimit: 1000, deliveryTimeout: DELIVERY_TIMEOUT_S, ackTimeout: 30 },
    gateway: GATEWAY,
  });
  const { gateway } = scene;
  gateway.run();
  for (const [at, disturbance] of DISTURBANCES.slice(0, rounds).entries()) {
    if (at === 0) await gateway.waitUntilAttached(0, MAX_KILL_DELAY_MS);
    gateway.allow((at + 1) * UPLINKS_PER_ROUND);
    const roundEnd = wait(ROUND_MS);
    await scene.callers.callAll();
    await wait(random.next() * MAX_KILL_DELAY_MS);
    gateway.setClock(random.pickOne([HOUR_MS, -HOUR_MS, at % 2 === 0 ? HOUR_MS : 0]));
    await DISTURB[disturbance](scene);
    await roundEnd;
    progress.step();
  }
  return await collectOutcome(
    scene,
    { mustSucceed: false, deadlines: true, refusals: false },
    { name: 'clock jumps', uplinks: rounds * UPLINKS_PER_ROUND, since },
  );
}

const DISTURB: Readonly<Record<(typeof DISTURBANCES)[number], (scene: Scene) => Promise<void>>> = {
  none: async () => {},
  'gateway restarts': async ({ gateway }) => {
    await gateway.kill();
    gateway.run();
  },
  'gateway away': async ({ gateway }) => {
    await gateway.kill();
    await wait(OFFLINE_MS);
    gateway.run();
  },
  'server away': async (scene) => {
    await scene.killServer();
    await wait(OFFLINE_MS);
    await scene.startServer();
  },
};
