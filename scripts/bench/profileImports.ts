import { setTimeout as pause } from 'node:timers/promises';
import {
  CreateDigitalDeviceRequest,
  DigitalDevice,
  GetDigitalDeviceRequest,
  UpdateDigitalDeviceRequest,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import { callMethod, DEVICES, toLoadTarget } from './fleet';
import { print, isShort } from './measure';
import { FixedRateCaller, type FixedRateResult } from './fixedRateCaller';
import type { PlantroomServer } from './plantroomServer';

/** A folder with device profiles to import. */
export interface Checkout {
  readonly name: string;
  readonly folder: string;
  readonly profiles: number;
}

const GETS_PER_SECOND = 100;
const WRITES_PER_SECOND = 20;
const QUIET_MS = isShort ? 1000 : 5000;
/** Import rate in profiles per second; p99 of a get in milliseconds. */
const GOALS = { profilesPerSecond: 4000 / 60, getMs: 50 };

/** The results of other clients during an import. */
interface ClientResults {
  readonly gets: FixedRateResult;
  readonly writes: FixedRateResult;
}

/** Imports each folder twice while one client reads a device and another client updates another device. */
export async function benchImports(
  server: PlantroomServer,
  deviceId: string,
  checkouts: readonly Checkout[],
): Promise<void> {
  const runWithClients = await createClients(server, deviceId);
  await runWithClients(async () => await pause(QUIET_MS / 2)); // warms up
  const quiet = await runWithClients(async () => await pause(QUIET_MS));
  printResults('idle server', quiet.results);
  for (const checkout of checkouts) {
    for (const again of [false, true]) {
      const work = async (): Promise<string> =>
        await server.runCommand(['profiles', 'import', checkout.folder, '--json']);
      const { seconds, results, result } = await runWithClients(work);
      const name = `${checkout.name}${again ? ', again' : ''}`;
      const goal = again ? '' : ` (goal: ${GOALS.profilesPerSecond.toFixed(0)})`;
      print(
        `  ${name}: ${checkout.profiles} profiles in ${seconds.toFixed(1)} s, ${(checkout.profiles / seconds).toFixed(0)} a second${goal}; ${formatCounts(result)}`,
      );
      printResults('meanwhile', results, quiet.results);
    }
  }
}

/** Returns a function that runs some work while the clients make their calls. */
async function createClients(
  server: PlantroomServer,
  deviceId: string,
): Promise<<T>(work: () => Promise<T>) => Promise<{ seconds: number; results: ClientResults; result: T }>> {
  const create = CreateDigitalDeviceRequest.encode(
    CreateDigitalDeviceRequest.fromPartial({ name: 'Updated continuously' }),
  ).finish();
  const { id } = DigitalDevice.decode(await callMethod(server, server.key, `${DEVICES}/CreateDigitalDevice`, create));
  const get = GetDigitalDeviceRequest.encode(GetDigitalDeviceRequest.fromPartial({ id: deviceId })).finish();
  const update = (n: number): Uint8Array =>
    UpdateDigitalDeviceRequest.encode(UpdateDigitalDeviceRequest.fromPartial({ id, name: `Changed ${n}` })).finish();
  return async (work) => {
    const gets = await FixedRateCaller.start(
      { ...toLoadTarget(server, server.key, `${DEVICES}/GetDigitalDevice`), message: () => get },
      GETS_PER_SECOND,
    );
    const writes = await FixedRateCaller.start(
      { ...toLoadTarget(server, server.key, `${DEVICES}/UpdateDigitalDevice`), message: update },
      WRITES_PER_SECOND,
    );
    const began = performance.now();
    const result = await work();
    const seconds = (performance.now() - began) / 1000;
    const results = { gets: await gets.stop(), writes: await writes.stop() };
    if (results.gets.failed + results.writes.failed > 0) process.exitCode = 1;
    return { seconds, results, result };
  };
}

function printResults(when: string, results: ClientResults, quiet?: ClientResults): void {
  for (const [kind, name] of [
    ['gets', 'GetDigitalDevice'],
    ['writes', 'UpdateDigitalDevice'],
  ] as const) {
    const { calls, failed, p50, p99, slowest } = results[kind];
    const ratio = quiet
      ? `  p99 ${(p99 / quiet[kind].p99).toFixed(2)} times${kind === 'gets' ? ` (goal: under ${GOALS.getMs} ms)` : ''}`
      : '';
    print(
      `    ${`${name}, ${when}`.padEnd(40)}${String(calls).padStart(6)}  p50 ${p50.toFixed(2).padStart(6)} ms  p99 ${p99.toFixed(2).padStart(6)} ms  slowest ${slowest.toFixed(0).padStart(4)} ms${ratio}${failed > 0 ? `  ${failed} FAILED` : ''}`,
    );
  }
}

function formatCounts(json: string): string {
  const summary = JSON.parse(json) as { new: number; changed: number; unchanged: number; warnings: readonly unknown[] };
  return `${summary.new} new, ${summary.changed} changed, ${summary.unchanged} unchanged, ${summary.warnings.length} warnings`;
}
