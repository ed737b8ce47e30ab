import { join } from 'node:path';
import { openDatabase } from '../../src/database';
import {
  GetDeviceProfileTemplateRequest,
  GetDigitalDeviceRequest,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import { silentLogger } from '../../src/kernel/logger';
import { DeviceProfiles } from '../../src/profiles';
import { DEVICES_PER_VENDOR, getDevice, PROFILES_PER_VENDOR, getVendor } from '../../test/support/manyProfiles';
import { DEVICES, toLoadTarget } from './fleet';
import { quantile } from './latencies';
import { compare, type Row, print, isShort } from './measure';
import type { PlantroomServer } from './plantroomServer';

const rounds = isShort ? 2 : 5;
const COUNT = isShort ? 1000 : 10_000;
/** The duration of a look-up in the process, and of an unsuccessful one on the event loop, in milliseconds. */
const GOALS = { found: 1, missed: 20 };

/** The parameters of a look-up. */
interface ProfileQuery {
  readonly brand: string;
  readonly model: string;
  readonly band: string;
}

const encodeLookUp =
  (getQuery: (n: number) => ProfileQuery) =>
  (n: number): Uint8Array =>
    GetDeviceProfileTemplateRequest.encode(GetDeviceProfileTemplateRequest.fromPartial(getQuery(n))).finish();

/** Measures look-ups by gRPC against a get of a device, and look-ups inside an idle process, with so many vendors. */
export async function benchLookUps(
  server: PlantroomServer,
  url: string,
  deviceId: string,
  vendors: number,
): Promise<void> {
  const createQuery = (n: number): ProfileQuery => ({
    brand: getVendor(n % vendors),
    model: getDevice(n % vendors, (n * 3) % DEVICES_PER_VENDOR),
    band: 'EU868',
  });
  print(`  look-ups at ${vendors * PROFILES_PER_VENDOR} profiles`);
  const get = GetDigitalDeviceRequest.encode(GetDigitalDeviceRequest.fromPartial({ id: deviceId })).finish();
  const load = { ...toLoadTarget(server, server.key, `${DEVICES}/GetDeviceProfileTemplate`), concurrency: 1 };
  const small = { brand: getVendor(0), model: getDevice(0, 0), band: 'eu863-870' };
  const [baseline, ...rows] = await compare(
    [
      {
        name: 'GetDigitalDevice, 1 concurrent',
        server: server.process,
        load: { ...load, path: `${DEVICES}/GetDigitalDevice`, message: () => get },
      },
      {
        name: 'GetDeviceProfileTemplate, script of 2 KiB',
        server: server.process,
        load: { ...load, message: encodeLookUp(() => small) },
      },
      {
        name: 'GetDeviceProfileTemplate, any',
        server: server.process,
        load: { ...load, message: encodeLookUp(createQuery) },
      },
    ],
    rounds,
  );
  for (const one of rows)
    print(
      `  -> ${one.name}: p50 ${(one.p50 / (baseline as Row).p50).toFixed(2)} times that of a bare get, CPU ${(one.cpu / (baseline as Row).cpu).toFixed(2)} times`,
    );
  await benchInProcess(server, url, createQuery);
}

async function benchInProcess(
  server: PlantroomServer,
  url: string,
  createQuery: (n: number) => ProfileQuery,
): Promise<void> {
  const database = await openDatabase({ url, dataDir: join(server.folder, 'data'), log: silentLogger, readOnly: true });
  try {
    const profiles = new DeviceProfiles({ database });
    const find = async (query: ProfileQuery): Promise<unknown> =>
      await profiles.find({ ...query, firmwareVersion: undefined });
    const findMissing = async (query: ProfileQuery): Promise<unknown> =>
      await find(query).then(
        () => {
          throw new Error('the profile exists');
        },
        () => undefined,
      );
    await measureLookUp(`found (goal: p99 under ${GOALS.found} ms)`, async (n) => await find(createQuery(n)));
    const near = `(goal: under ${GOALS.missed} ms of the event loop)`;
    await measureLookUp(`another band ${near}`, async (n) => await findMissing({ ...createQuery(n), band: 'KR920' }));
    await measureLookUp(
      `unknown model ${near}`,
      async (n) => await findMissing({ ...createQuery(n), model: `no such model ${n}` }),
    );
    await measureLookUp(
      `unknown brand ${near}`,
      async (n) => await findMissing({ ...createQuery(n), brand: `no such brand ${n}` }),
    );
  } finally {
    await database.close();
  }
}

async function measureLookUp(name: string, work: (n: number) => Promise<unknown>): Promise<void> {
  for (let n = 0; n < 100; n += 1) await work(n); // warms up
  const times: number[] = [];
  for (let n = 0; n < COUNT; n += 1) {
    const began = performance.now();
    await work(n);
    times.push(performance.now() - began);
  }
  print(
    `  inside the process, ${name}: p50 ${quantile(times, 0.5).toFixed(3)} ms  p99 ${quantile(times, 0.99).toFixed(3)} ms  slowest ${Math.max(...times).toFixed(1)} ms`,
  );
}
