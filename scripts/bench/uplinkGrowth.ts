import { startBroker } from './benchBroker';
import { large, row, say, short } from './measure';
import { PlantroomServer } from './plantroomServer';
import { makeReadingPast } from './readingPast';
import { UplinkRun } from './uplinkRun';
import { makeUplinkSite, SENSORS, type UplinkSite } from './uplinkSite';

const DEVICES = short ? 20 : 1000;
const HOURS = large ? 167 : 10; // of each of the 5,000 sensors 10,000 readings
const BURST = short ? 2000 : 30_000;
const MANY = large ? 1_000_000 : 20_000;
const rounds = short ? 1 : 3;
const GOAL = 1.5;

/** Whether uplinks cost more where many readings lie, and whether the server's memory grows with them. In a database of its own. */
export async function benchUplinkGrowth(): Promise<void> {
  const broker = await startBroker();
  say(`\nuplinks and what is stored already (${broker.name}), ${DEVICES} devices, ${SENSORS} readings each: SQLite (goal: at most ${GOAL} times the time${large ? '' : '; with --large 50 million rows'})`);
  const first = await PlantroomServer.start({}, { isPinned: false });
  try {
    const site = await makeUplinkSite(first, broker.url, DEVICES);
    const before = await bursts(site, broker.url, 'an empty table');
    await first.process.stop();
    const sensors = site.devices.flatMap((device) => device.sensors);
    await makeReadingPast(first, sensors, HOURS);
    const server = await PlantroomServer.start({}, { folder: first.folder, isPinned: false });
    try {
      const after = await bursts({ ...site, server }, broker.url, `${((sensors.length * HOURS * 60) / 1e6).toFixed(1)} million readings`);
      say(`  -> ${(before.perSecond / after.perSecond).toFixed(2)} times the time, ${(after.cpu / before.cpu).toFixed(2)} times the CPU time`);
      if (large) await benchMemory({ ...site, server }, broker.url);
    } finally {
      await server.process.stop();
    }
  } finally {
    await first.remove();
    await broker.stop();
  }
}

async function bursts(site: UplinkSite, url: string, name: string): ReturnType<UplinkRun['burst']> {
  await using run = await UplinkRun.open(site, url);
  await run.burst(Math.min(2000, BURST)); // warms up
  const turns = [];
  for (let round = 0; round < rounds; round += 1) turns.push(await run.burst(BURST));
  return row(name, turns);
}

async function benchMemory(site: UplinkSite, url: string): Promise<void> {
  await using run = await UplinkRun.open(site, url);
  const portion = MANY / 10;
  const seen: number[] = [];
  for (let done = 0; done < MANY; done += portion) {
    await run.burst(portion);
    seen.push(site.server.process.memoryMegabytes());
  }
  say(`  -> memory of the server after each ${portion} of ${MANY} uplinks, in MB: ${seen.map((one) => one.toFixed(0)).join(', ')}`);
}
