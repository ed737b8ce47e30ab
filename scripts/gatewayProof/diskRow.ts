import { setTimeout as wait } from 'node:timers/promises';
import { canMount, SmallDisk } from '../../test/faults/smallDisk';
import type { Random } from '../soak/random';
import type { Progress } from './progress';
import { Scene } from './scene';
import { MAX_ATTACH_MS } from './gatewayProcess';
import { type Outcome, collectOutcome } from './outcome';

const DISK_MIB = 8;
const ROUNDS = 4;
const COMMANDS_PER_ROUND = 60;
const UPLINKS_PER_ROUND = 300;
const FULL_MS = 900;
const BUSY_MS = 150;

/** The number of steps that it reports. */
export const DISK_STEPS = ROUNDS;

/**
 * Fills the disk of the gateway's store and frees it again; in every other round the gateway is killed while the disk is
 * full. Returns undefined where no file system can be mounted.
 */
export async function proveDisk(random: Random, progress: Progress): Promise<Outcome | undefined> {
  if (!canMount('inMemory')) return undefined;
  const disk = SmallDisk.inMemory(DISK_MIB);
  try {
    return await proveOnDisk(disk, random, progress);
  } finally {
    disk.remove();
  }
}

async function proveOnDisk(disk: SmallDisk, random: Random, progress: Progress): Promise<Outcome> {
  const since = performance.now();
  const policy = { queueLimit: 1000, deliveryTimeout: 86_400, ackTimeout: 86_400 };
  const scene = await Scene.prepare(random, {
    serverStays: true,
    policy,
    gateway: { maxConcurrentDeliveries: 16, deviceMs: [1, 15] },
    storeFolder: disk.root,
  });
  const { gateway, callers } = scene;
  gateway.run();
  let failures = 0;
  let before = 0;
  for (let round = 1; round <= ROUNDS; round += 1) {
    await gateway.waitUntilAttached(before, MAX_ATTACH_MS);
    callers.allow(round * COMMANDS_PER_ROUND);
    gateway.allow(round * UPLINKS_PER_ROUND);
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
  const outcome = await collectOutcome(
    scene,
    { mustSucceed: false, deadlines: false, refusals: true },
    { name: 'disk full', uplinks: ROUNDS * UPLINKS_PER_ROUND, since },
  );
  return failures > 0
    ? outcome
    : { ...outcome, wrong: [...outcome.wrong, 'the store never reported a full disk: nothing is proven'] };
}
