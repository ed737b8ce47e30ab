import { setTimeout as wait } from 'node:timers/promises';
import { AedesProcess } from './aedesProcess';
import type { Transport } from './brokerPoints';
import { CallProber } from './callProber';
import { countReadings, countUntilAllStored, type ReadingTotals } from './countReadings';
import { type CrashBroker, startBroker } from './crashBroker';
import { createPlant, type Plant, waitUntilConnected } from './plant';
import { createPlantKind } from './plantKinds';
import type { Outcome } from './outcome';
import type { Running, Site } from './site';
import { createUplinkOutcome } from './uplinkOutcome';
import { UplinkSource } from './uplinkSource';

/** The messages that are queued at the broker, and how the server reads them. */
export interface Backlog {
  readonly transport: Transport;
  /** aedes speaks 3.1.1 only. */
  readonly protocol: '5' | '3.1.1';
  readonly messages: number;
  /** Padding of each payload, in bytes. */
  readonly bytes: number;
}

const DRAIN_BEFORE_END_MS = 1500;
/** On an idle machine, a call takes some milliseconds and a stop less than a second. */
const MAX_CALL_MS = 3000;
const MAX_STOP_MS = 3000;
/** As much memory as docs/operate.md recommends. */
const MAX_MEMORY_MIB = 512;
const BROKER_LINES = ['max_queued_messages 0'];

/**
 * Fills the session at the broker while no server runs. Servers that drain it are killed after 1.5 s, the last but one is
 * shut down gracefully, and the last one drains the rest. Every message must be stored exactly once. The name of the
 * outcome contains the measured values.
 */
export async function proveBacklog(backlog: Backlog, site: Site, rounds: number): Promise<Outcome> {
  const broker = await startBroker(BROKER_LINES);
  try {
    const plant = await preparePlant(backlog, site, broker);
    const source = await UplinkSource.connect(
      broker.url,
      backlog.transport,
      plant.actuators.map(({ clientDeviceId }) => clientDeviceId),
      backlog.bytes,
    );
    await source.publish(backlog.messages);
    await source.disconnect();
    const killsWhileDraining = Math.max(1, rounds - 1); // preparePlant kills once too
    for (let kills = 0; kills < killsWhileDraining; kills += 1) await drainAndKill(site);
    return await drain({ ...backlog, accepted: source.accepted }, site, plant, killsWhileDraining + 1);
  } finally {
    await broker.remove();
  }
}

/** Creates the devices and the session at the broker, and kills the server (the first kill). */
async function preparePlant({ transport, protocol }: Backlog, site: Site, broker: CrashBroker): Promise<Plant> {
  const running = await site.startWithoutTrap();
  const kind = createPlantKind(transport, broker.url);
  const plant = await createPlant(
    running.clients,
    {},
    {
      ...kind,
      configuration: { ...kind.configuration, protocol: broker instanceof AedesProcess ? '3.1.1' : protocol },
    },
  );
  await waitUntilConnected(running.clients, plant.connectionId);
  await killServer(running);
  return plant;
}

async function drainAndKill(site: Site): Promise<void> {
  const running = await site.startWithoutTrap();
  await wait(DRAIN_BEFORE_END_MS);
  await killServer(running);
}

async function drain(
  { transport, protocol, messages, accepted }: Backlog & { readonly accepted: ReadingTotals },
  site: Site,
  plant: Plant,
  kills: number,
): Promise<Outcome> {
  const first = await site.startWithoutTrap();
  const slowestAtFirstMs = await measureSlowestCall(first, async () => await wait(DRAIN_BEFORE_END_MS));
  const firstMemory = first.victim.peakMemoryMib();
  const stopMs = await stopServer(first);
  const last = await site.startWithoutTrap();
  const sensorIds = plant.actuators.map(({ sensorId }) => sensorId);
  const { count: before } = await countReadings(last.clients, sensorIds);
  const started = performance.now();
  let stored: ReadingTotals = { count: 0, sum: 0 };
  const slowestMs = Math.max(
    slowestAtFirstMs,
    await measureSlowestCall(
      last,
      async () => void (stored = await countUntilAllStored(last.clients, sensorIds, accepted.count)),
    ),
  );
  const perSecond = ((stored.count - before) * 1000) / (performance.now() - started);
  const memory = Math.max(firstMemory, last.victim.peakMemoryMib());
  await killServer(last);
  const measured = `${Math.round(perSecond)}/s after ${before}, slowest call ${Math.round(slowestMs)} ms, stop ${Math.round(stopMs)} ms, ${memory} MiB`;
  return createUplinkOutcome({
    name: `${transport} ${protocol}: a backlog of ${messages} (${measured})`,
    kills,
    accepted,
    stored,
    wrong:
      slowestMs > MAX_CALL_MS || stopMs > MAX_STOP_MS || memory > MAX_MEMORY_MIB
        ? [`too slow, or too much memory, while the backlog is read: ${measured}`]
        : [],
    folder: site.folder,
  });
}

/** Measures the slowest call while an action runs, in milliseconds. */
async function measureSlowestCall({ clients }: Running, action: () => Promise<void>): Promise<number> {
  const prober = new CallProber(clients);
  const probing = prober.run();
  await action();
  prober.stop();
  await probing;
  return prober.slowestMs;
}

async function stopServer({ victim, clients }: Running): Promise<number> {
  clients.close();
  const started = performance.now();
  await victim.stop();
  return performance.now() - started;
}

async function killServer({ victim, clients }: Running): Promise<void> {
  clients.close();
  await victim.kill();
}
