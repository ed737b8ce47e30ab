import { join } from 'node:path';
import { openDatabase } from '../../src/database';
import { GetDeviceProfileTemplateRequest, GetDigitalDeviceRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { silentLogger } from '../../src/kernel/logger';
import { DeviceProfiles } from '../../src/profiles';
import { DEVICES_PER_VENDOR, deviceOf, PROFILES_PER_VENDOR, vendorOf } from '../../test/support/manyProfiles';
import { DEVICES, target } from './fleet';
import { compare, quantile, type Row, say, short } from './measure';
import type { PlantroomServer } from './plantroomServer';

const rounds = short ? 2 : 5;
const COUNT = short ? 1000 : 10_000;
/** Of a look-up inside the server, and of the event loop that a near miss takes, in milliseconds. */
const GOALS = { found: 1, missed: 20 };

/** What to look up. */
interface Asked {
  readonly brand: string;
  readonly model: string;
  readonly band: string;
}

const lookUp = (of: (n: number) => Asked) => (n: number): Uint8Array => GetDeviceProfileTemplateRequest.encode(GetDeviceProfileTemplateRequest.fromPartial(of(n))).finish();

/** Look-ups over the wire against a get of a device, and inside of a process that does nothing else, among so many vendors. */
export async function benchLookUps(server: PlantroomServer, url: string, deviceId: string, vendors: number): Promise<void> {
  const asked = (n: number): Asked => ({ brand: vendorOf(n % vendors), model: deviceOf(n % vendors, (n * 3) % DEVICES_PER_VENDOR), band: 'EU868' });
  say(`  look-ups at ${vendors * PROFILES_PER_VENDOR} profiles`);
  const get = GetDigitalDeviceRequest.encode(GetDigitalDeviceRequest.fromPartial({ id: deviceId })).finish();
  const load = { ...target(server, server.key, `${DEVICES}/GetDeviceProfileTemplate`), concurrency: 1 };
  const small = { brand: vendorOf(0), model: deviceOf(0, 0), band: 'eu863-870' };
  const [yardstick, ...rows] = await compare([
    { name: 'GetDigitalDevice, 1 at once', server: server.process, load: { ...load, path: `${DEVICES}/GetDigitalDevice`, message: () => get } },
    { name: 'GetDeviceProfileTemplate, script of 2 KiB', server: server.process, load: { ...load, message: lookUp(() => small) } },
    { name: 'GetDeviceProfileTemplate, any', server: server.process, load: { ...load, message: lookUp(asked) } },
  ], rounds);
  for (const one of rows) say(`  -> ${one.name}: p50 ${(one.p50 / (yardstick as Row).p50).toFixed(2)} times that of a bare get, CPU ${(one.cpu / (yardstick as Row).cpu).toFixed(2)} times`);
  await inside(server, url, asked);
}

async function inside(server: PlantroomServer, url: string, asked: (n: number) => Asked): Promise<void> {
  const database = await openDatabase({ url, dataDir: join(server.folder, 'data'), log: silentLogger, readOnly: true });
  try {
    const profiles = new DeviceProfiles({ database });
    const find = async (query: Asked): Promise<unknown> => await profiles.find({ ...query, firmwareVersion: undefined });
    const missed = async (query: Asked): Promise<unknown> => await find(query).then(() => { throw new Error('it was found'); }, () => undefined);
    await timed(`found (goal: p99 under ${GOALS.found} ms)`, async (n) => await find(asked(n)));
    const near = `(goal: under ${GOALS.missed} ms of the event loop)`;
    await timed(`another band ${near}`, async (n) => await missed({ ...asked(n), band: 'KR920' }));
    await timed(`a model that is not there ${near}`, async (n) => await missed({ ...asked(n), model: `no such model ${n}` }));
    await timed(`a brand that is not there ${near}`, async (n) => await missed({ ...asked(n), brand: `no such brand ${n}` }));
  } finally {
    await database.close();
  }
}

async function timed(name: string, work: (n: number) => Promise<unknown>): Promise<void> {
  for (let n = 0; n < 100; n += 1) await work(n); // warms up
  const times: number[] = [];
  for (let n = 0; n < COUNT; n += 1) {
    const began = performance.now();
    await work(n);
    times.push(performance.now() - began);
  }
  say(`  inside the process, ${name}: p50 ${quantile(times, 0.5).toFixed(3)} ms  p99 ${quantile(times, 0.99).toFixed(3)} ms  slowest ${Math.max(...times).toFixed(1)} ms`);
}
