import { setTimeout as wait } from 'node:timers/promises';
import { canMount, SmallDisk } from '../../test/faults/smallDisk';
import type { Random } from '../soak/random';
import type { Progress } from './progress';
import { Scene } from './scene';
import { type Outcome, settle } from './settle';

const DISK_MIB = 8;
const ROUNDS = 4;
const COMMANDS_IN_A_ROUND = 60;
const UPLINKS_IN_A_ROUND = 300;
const FULL_MS = 900;
const BUSY_MS = 150;
const LONGEST_ATTACH_MS = 3000;

/** How many steps it tells. */
export const DISK_STEPS = ROUNDS;

/** The disk of the gateway's store is full, and has room again; in every other round the gateway is killed while it is full. Undefined: this machine lets nobody mount one. */
export async function proveDisk(random: Random, progress: Progress): Promise<Outcome | undefined> {
  if (!canMount('inMemory')) return undefined;
  const disk = SmallDisk.inMemory(DISK_MIB);
  try {
    return await proveOn(disk, random, progress);
  } finally {
    disk.remove();
  }
}

async function proveOn(disk: SmallDisk, random: Random, progress: Progress): Promise<Outcome> {
  const since = performance.now();
  const policy = { queueLimit: 1000, deliveryTimeout: 86_400, ackTimeout: 86_400 };
  const scene = await Scene.prepare(random, { serverStays: true, policy, gateway: { deliveriesAtOnce: 16, deviceMs: [1, 15] }, storeFolder: disk.root });
  const { gateway, callers } = scene;
  gateway.run();
  let failures = 0;
  let before = 0;
  for (let round = 1; round <= ROUNDS; round += 1) {
    await gateway.attaches(before, LONGEST_ATTACH_MS);
    callers.allow(round * COMMANDS_IN_A_ROUND);
    gateway.allow(round * UPLINKS_IN_A_ROUND);
    await wait(random.next() * BUSY_MS);
    disk.fill();
    await wait(FULL_MS);
    failures += (await gateway.report())?.storeFailures ?? 0;
    before = round % 2 === 0 ? gateway.attached : 0;
    if (round % 2 === 0) await gateway.kill();
    disk.free();
    if (round % 2 === 0) gateway.run();
    progress.step();
  }
  const outcome = await settle(scene, { mustBeDone: false, deadlines: false, refusals: true }, { name: 'disk full', uplinks: ROUNDS * UPLINKS_IN_A_ROUND, since });
  return failures > 0 ? outcome : { ...outcome, wrong: [...outcome.wrong, 'the store never said that it was full: nothing is proven'] };
}
