import { startBroker } from './benchBroker';
import { row, say, short } from './measure';
import { PlantroomServer } from './plantroomServer';
import { type UplinkResult, UplinkRun } from './uplinkRun';
import { makeUplinkSite, SENSORS } from './uplinkSite';

const FLEETS = short ? [50] : [100, 1000];
const BURST = short ? 2000 : 30_000;
const rounds = short ? 1 : 3;
const milliseconds = short ? 1000 : 10_000;
/** Uplinks a second, one after the other. */
const PACES = short ? [500] : [500, 1500, 3000];
const GOAL = 3000;

/** Uplinks from one MQTT connection, each with five mapped readings and on disk before the broker is told; the server has all cores, which it shares with the broker and the load. */
export async function benchUplinks(): Promise<void> {
  const broker = await startBroker();
  say(`\nuplinks over one MQTT connection (${broker.name}, QoS 1), ${SENSORS} readings each: SQLite (goal: ${GOAL} a second)`);
  try {
    for (const count of FLEETS) await benchFleet(broker.url, count);
  } finally {
    await broker.stop();
  }
}

async function benchFleet(url: string, count: number): Promise<void> {
  const server = await PlantroomServer.start({}, { isPinned: false });
  try {
    const site = await makeUplinkSite(server, url, count);
    await using run = await UplinkRun.open(site, url);
    await run.burst(Math.min(2000, BURST)); // warms up
    const turns: UplinkResult[] = [];
    for (let round = 0; round < rounds; round += 1) turns.push(await run.burst(BURST));
    const burst = row(`${count} devices, as fast as it goes`, turns);
    for (const pace of PACES.filter((one) => one < burst.perSecond)) row(`${count} devices, ${pace} a second`, [await run.steady(pace, milliseconds)]);
    say(`  -> ${(burst.perSecond / GOAL).toFixed(2)} times the goal, ${(burst.perSecond * SENSORS).toFixed(0)} readings a second`);
  } finally {
    await server.remove();
  }
}
