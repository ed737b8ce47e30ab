import { startBroker } from './benchBroker';
import { printRow, print, isShort } from './measure';
import { PlantroomServer } from './plantroomServer';
import { type UplinkResult, UplinkRun } from './uplinkRun';
import { createUplinkSite, SENSORS } from './uplinkSite';

const FLEETS = isShort ? [50] : [100, 1000];
const BURST = isShort ? 2000 : 30_000;
const rounds = isShort ? 1 : 3;
const milliseconds = isShort ? 1000 : 10_000;
/** Rates in uplinks per second. */
const RATES = isShort ? [500] : [500, 1500, 3000];
const GOAL = 3000;

/**
 * Measures uplinks from one MQTT connection with five mapped readings each, which are on disk before they are acknowledged
 * to the broker. The server shares all cores with the broker and the load.
 */
export async function benchUplinks(): Promise<void> {
  const broker = await startBroker();
  print(
    `\nuplinks over one MQTT connection (${broker.name}, QoS 1), ${SENSORS} readings each: SQLite (goal: ${GOAL}/s)`,
  );
  try {
    for (const count of FLEETS) await benchFleet(broker.url, count);
  } finally {
    await broker.stop();
  }
}

async function benchFleet(url: string, count: number): Promise<void> {
  const server = await PlantroomServer.start({}, { isPinned: false });
  try {
    const site = await createUplinkSite(server, url, count);
    await using run = await UplinkRun.open(site, url);
    await run.burst(Math.min(2000, BURST)); // warms up
    const turns: UplinkResult[] = [];
    for (let round = 0; round < rounds; round += 1) turns.push(await run.burst(BURST));
    const burst = printRow(`${count} devices, maximum rate`, turns);
    for (const rate of RATES.filter((one) => one < burst.perSecond))
      printRow(`${count} devices, ${rate}/s`, [await run.steady(rate, milliseconds)]);
    print(
      `  -> ${(burst.perSecond / GOAL).toFixed(2)} times the goal, ${(burst.perSecond * SENSORS).toFixed(0)} readings/s`,
    );
  } finally {
    await server.remove();
  }
}
