import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import {
  ExecuteCommandRequest,
  type ExecuteCommandResponse,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { GetDigitalDeviceRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { callWhoAmI } from './callProber';
import { callUnary } from './clients';
import { countUntilAllStored } from './countReadings';
import { startBroker } from './crashBroker';
import { type Actuator, createPlant, waitUntilConnected } from './plant';
import { createPlantKind } from './plantKinds';
import type { Outcome } from './outcome';
import type { Running, Site } from './site';
import { createUplinkOutcome } from './uplinkOutcome';
import { UplinkSource } from './uplinkSource';

const KILLS_PER_ROUND = 3;
const UPLINKS_PER_SECOND = 800;
const MAX_LIFE_MS = 400;
/** Without the time in which other processes had the cores. On an idle machine it is a quarter of a second. */
const MAX_FIRST_CALL_MS = 2000;

/**
 * Kills servers in close succession while devices send 800 uplinks per second over a broker. The backlog at the broker
 * must not delay the calls of the next server once it is ready, and every uplink must be stored exactly once.
 */
export async function proveSuccession(site: Site, rounds: number): Promise<Outcome> {
  const broker = await startBroker(['max_queued_messages 0']);
  const over = new AbortController();
  try {
    let running = await site.startWithoutTrap();
    const plant = await createPlant(running.clients, {}, createPlantKind('mqtt', broker.url));
    await waitUntilConnected(running.clients, plant.connectionId);
    const source = await UplinkSource.connect(
      broker.url,
      'mqtt',
      plant.actuators.map(({ clientDeviceId }) => clientDeviceId),
    );
    const sending = source.run(UPLINKS_PER_SECOND, over.signal);
    const kills = rounds * KILLS_PER_ROUND;
    const slowest = { totalMs: 0, ownMs: 0 };
    const [actuator] = plant.actuators as readonly [Actuator];
    for (let done = 0; done < kills; done += 1) {
      await wait(randomInt(MAX_LIFE_MS));
      running.clients.close();
      await running.victim.kill();
      running = await site.startWithoutTrap();
      const { totalMs, ownMs } = await timeFirstCalls(running, actuator, done);
      slowest.totalMs = Math.max(slowest.totalMs, totalMs);
      slowest.ownMs = Math.max(slowest.ownMs, ownMs);
    }
    over.abort();
    await sending;
    await source.disconnect();
    const stored = await countUntilAllStored(
      running.clients,
      plant.actuators.map(({ sensorId }) => sensorId),
      source.accepted.count,
    );
    running.clients.close();
    await running.victim.kill();
    return createUplinkOutcome({
      name: `mqtt: kills in close succession (first calls ${Math.round(slowest.totalMs)} ms, ${Math.round(slowest.ownMs)} ms without waiting for a core)`,
      kills,
      accepted: source.accepted,
      stored,
      wrong:
        slowest.ownMs > MAX_FIRST_CALL_MS
          ? [`a ready server took ${Math.round(slowest.ownMs)} ms for its first responses`]
          : [],
      folder: site.folder,
    });
  } finally {
    over.abort();
    await broker.remove();
  }
}

/**
 * Measures the first calls to a ready server: one that needs only the key, one that reads and one that writes. Returns
 * the time until all three have a response, in milliseconds, in total and without the time in which the server waited
 * for a core. `n`: a different number for each server.
 */
async function timeFirstCalls(
  { clients, victim }: Running,
  actuator: Actuator,
  n: number,
): Promise<{ totalMs: number; ownMs: number }> {
  const { devices, commands, metadata } = clients;
  const { deviceId: id, commandId } = actuator;
  const read = GetDigitalDeviceRequest.fromPartial({ id });
  const write = ExecuteCommandRequest.fromPartial({ id, commandId, params: { n }, triggerId: `first-call-${n}` });
  const started = performance.now();
  const waitedBefore = victim.waitedForCoreMs();
  const [, , { accepted }] = await Promise.all([
    callWhoAmI(clients),
    callUnary((callback) => devices.getDigitalDevice(read, metadata, callback)),
    callUnary<ExecuteCommandResponse>((callback) => commands.executeCommand(write, metadata, callback)),
  ]);
  if (!accepted) throw new Error(`the first command was rejected: ${write.triggerId}`);
  const totalMs = performance.now() - started;
  return { totalMs, ownMs: totalMs - (victim.waitedForCoreMs() - waitedBefore) };
}
