import { setTimeout as pause } from 'node:timers/promises';
import { CreateDigitalDeviceRequest, DigitalDevice, GetDigitalDeviceRequest, UpdateDigitalDeviceRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { ask, DEVICES, target } from './fleet';
import { say, short } from './measure';
import { Pace, type Paced } from './pace';
import type { PlantroomServer } from './plantroomServer';

/** A folder to import. */
export interface Checkout {
  readonly name: string;
  readonly folder: string;
  readonly profiles: number;
}

const GETS_A_SECOND = 100;
const WRITES_A_SECOND = 20;
const QUIET_MS = short ? 1000 : 5000;
/** For 4,000 profiles, in seconds; and for the p99 of a get, in milliseconds. */
const GOALS = { profilesPerSecond: 4000 / 60, getMs: 50 };

/** Who else is served, and how. */
interface Bystanders {
  readonly gets: Paced;
  readonly writes: Paced;
}

/** Imports each checkout twice, while a client reads a device and another client changes another one. */
export async function benchImports(server: PlantroomServer, deviceId: string, checkouts: readonly Checkout[]): Promise<void> {
  const clients = await bystanders(server, deviceId);
  await clients(async () => await pause(QUIET_MS / 2)); // warms up
  const quiet = await clients(async () => await pause(QUIET_MS));
  shown('nothing else', quiet.seen);
  for (const checkout of checkouts) {
    for (const again of [false, true]) {
      const work = async (): Promise<string> => await server.beside(['profiles', 'import', checkout.folder, '--json']);
      const { seconds, seen, result } = await clients(work);
      const name = `${checkout.name}${again ? ', again' : ''}`;
      const goal = again ? '' : ` (goal: ${GOALS.profilesPerSecond.toFixed(0)})`;
      say(`  ${name}: ${checkout.profiles} profiles in ${seconds.toFixed(1)} s, ${(checkout.profiles / seconds).toFixed(0)} a second${goal}; ${counts(result)}`);
      shown('meanwhile', seen, quiet.seen);
    }
  }
}

/** Answers how to do something while the calls go on. */
async function bystanders(server: PlantroomServer, deviceId: string): Promise<<T>(work: () => Promise<T>) => Promise<{ seconds: number; seen: Bystanders; result: T }>> {
  const create = CreateDigitalDeviceRequest.encode(CreateDigitalDeviceRequest.fromPartial({ name: 'Changed all the time' })).finish();
  const { id } = DigitalDevice.decode(await ask(server, server.key, `${DEVICES}/CreateDigitalDevice`, create));
  const get = GetDigitalDeviceRequest.encode(GetDigitalDeviceRequest.fromPartial({ id: deviceId })).finish();
  const update = (n: number): Uint8Array => UpdateDigitalDeviceRequest.encode(UpdateDigitalDeviceRequest.fromPartial({ id, name: `Changed ${n}` })).finish();
  return async (work) => {
    const gets = await Pace.start({ ...target(server, server.key, `${DEVICES}/GetDigitalDevice`), message: () => get }, GETS_A_SECOND);
    const writes = await Pace.start({ ...target(server, server.key, `${DEVICES}/UpdateDigitalDevice`), message: update }, WRITES_A_SECOND);
    const began = performance.now();
    const result = await work();
    const seconds = (performance.now() - began) / 1000;
    const seen = { gets: await gets.stop(), writes: await writes.stop() };
    if (seen.gets.failed + seen.writes.failed > 0) process.exitCode = 1;
    return { seconds, seen, result };
  };
}

function shown(when: string, seen: Bystanders, quiet?: Bystanders): void {
  for (const [kind, name] of [['gets', 'GetDigitalDevice'], ['writes', 'UpdateDigitalDevice']] as const) {
    const { calls, failed, p50, p99, slowest } = seen[kind];
    const ratio = quiet ? `  p99 ${(p99 / quiet[kind].p99).toFixed(2)} times${kind === 'gets' ? ` (goal: under ${GOALS.getMs} ms)` : ''}` : '';
    say(`    ${`${name}, ${when}`.padEnd(40)}${String(calls).padStart(6)}  p50 ${p50.toFixed(2).padStart(6)} ms  p99 ${p99.toFixed(2).padStart(6)} ms  slowest ${slowest.toFixed(0).padStart(4)} ms${ratio}${failed > 0 ? `  ${failed} FAILED` : ''}`);
  }
}

function counts(json: string): string {
  const told = JSON.parse(json) as { new: number; changed: number; unchanged: number; warnings: readonly unknown[] };
  return `${told.new} new, ${told.changed} changed, ${told.unchanged} unchanged, ${told.warnings.length} warnings`;
}
