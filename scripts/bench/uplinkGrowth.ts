import { startBroker } from './benchBroker';
import { isLarge, printRow, print, isShort } from './measure';
import { PlantroomServer } from './plantroomServer';
import { createReadingHistory } from './readingHistoryData';
import { UplinkRun } from './uplinkRun';
import { createUplinkSite, SENSORS, type UplinkSite } from './uplinkSite';

const DEVICES = isShort ? 20 : 1000;
const HOURS = isLarge ? 167 : 10; // 10,000 readings of each of the 5,000 sensors
const BURST = isShort ? 2000 : 30_000;
const MANY = isLarge ? 1_000_000 : 20_000;
const rounds = isShort ? 1 : 3;
const GOAL = 1.5;

/** Measures whether uplinks cost more with many stored readings, and whether the server's memory grows. */
export async function benchUplinkGrowth(): Promise<void> {
  const broker = await startBroker();
  print(
    `\nuplinks with stored readings (${broker.name}), ${DEVICES} devices, ${SENSORS} readings each: SQLite (goal: at most ${GOAL} times the time${isLarge ? '' : '; with --large 50 million rows'})`,
  );
  const first = await PlantroomServer.start({}, { isPinned: false });
  try {
    const site = await createUplinkSite(first, broker.url, DEVICES);
    const before = await benchBursts(site, broker.url, 'an empty table');
    await first.process.stop();
    const sensors = site.devices.flatMap((device) => device.sensors);
    await createReadingHistory(first, sensors, HOURS);
    const server = await PlantroomServer.start({}, { folder: first.folder, isPinned: false });
    try {
      const after = await benchBursts(
        { ...site, server },
        broker.url,
        `${((sensors.length * HOURS * 60) / 1e6).toFixed(1)} million readings`,
      );
      print(
        `  -> ${(before.perSecond / after.perSecond).toFixed(2)} times the time, ${(after.cpu / before.cpu).toFixed(2)} times the CPU time`,
      );
      if (isLarge) await benchMemory({ ...site, server }, broker.url);
    } finally {
      await server.process.stop();
    }
  } finally {
    await first.remove();
    await broker.stop();
  }
}

async function benchBursts(site: UplinkSite, url: string, name: string): ReturnType<UplinkRun['burst']> {
  await using run = await UplinkRun.open(site, url);
  await run.burst(Math.min(2000, BURST)); // warms up
  const turns = [];
  for (let round = 0; round < rounds; round += 1) turns.push(await run.burst(BURST));
  return printRow(name, turns);
}

async function benchMemory(site: UplinkSite, url: string): Promise<void> {
  await using run = await UplinkRun.open(site, url);
  const portion = MANY / 10;
  const memoryMib: number[] = [];
  for (let done = 0; done < MANY; done += portion) {
    await run.burst(portion);
    memoryMib.push(site.server.process.memoryMegabytes());
  }
  print(
    `  -> memory of the server after each ${portion} of ${MANY} uplinks, in MB: ${memoryMib.map((one) => one.toFixed(0)).join(', ')}`,
  );
}
