import { join } from 'node:path';
import {
  GetDigitalDeviceRequest,
  ListDigitalDevicesRequest,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import { DEVICES, createDevices, createFullDevice, toLoadTarget } from './fleet';
import { compare, type Row, print, isShort } from './measure';
import { type Key, PlantroomServer } from './plantroomServer';
import { ServerProcess } from './serverProcess';

const rounds = isShort ? 2 : 7;
const mediumSize = isShort ? 5000 : 10_000;
const sizes = isShort ? [1000, mediumSize] : [1000, mediumSize, 100_000];
const SCOPES = ['devices:read', 'devices:write', 'sensors:read', 'sensors:write', 'connections:write'];
const encodeGetRequest = (id: string): Uint8Array =>
  GetDigitalDeviceRequest.encode(GetDigitalDeviceRequest.fromPartial({ id })).finish();
const encodeListRequest = (fields: Partial<ListDigitalDevicesRequest>): Uint8Array =>
  ListDigitalDevicesRequest.encode(ListDigitalDevicesRequest.fromPartial(fields)).finish();

/**
 * Measures a small call and a page against a bare grpc-js server, with and without TLS, and whether a page costs more with
 * more devices.
 */
export async function benchCalls(): Promise<void> {
  const plain = await PlantroomServer.start({ PLANTROOM_TLS_MODE: 'off' });
  const secure = await PlantroomServer.start();
  try {
    print('\ncreating devices');
    const keys = new Map<number, Key>();
    for (const size of sizes) {
      const key = plain.createOrganization(`Fleet of ${size}`, SCOPES);
      keys.set(size, key);
      await createDevices(plain, key, size, (text) => print(`  ${text}`));
    }
    await createDevices(secure, secure.key, mediumSize, (text) => print(`  TLS on: ${text}`));
    print('\ncalls, 32 concurrent, alternating');
    await benchSmallCalls(plain, keys.get(mediumSize) as Key);
    await benchSmallCalls(secure, secure.key);
    print('\ngrowth, one call at a time (goal: at most 2.00 without search and with up to 1,000 matches)');
    await benchGrowth(plain, keys);
  } finally {
    await Promise.all([plain.remove(), secure.remove()]);
  }
}

/** Measures the echo server, a get and a page, with the same TLS setting. */
async function benchSmallCalls(server: PlantroomServer, key: Key): Promise<void> {
  const tls = server.ca ? 'on' : 'off';
  const echo = await ServerProcess.start(
    join(__dirname, 'bench-echo.js'),
    server.ca ? [join(server.folder, 'data', 'tls')] : [],
  );
  try {
    const message = encodeGetRequest(await createFullDevice(server, key));
    const echoUrl = `${server.ca ? 'https' : 'http'}://${echo.ready.grpc}`;
    const [baseline, ...rows] = await compare(
      [
        {
          name: `bare grpc-js echo, TLS ${tls}`,
          server: echo,
          load: {
            url: echoUrl,
            ca: server.ca,
            path: `${DEVICES}/GetDigitalDevice`,
            headers: {},
            message: () => message,
            concurrency: 32,
          },
        },
        {
          name: `GetDigitalDevice, full server, TLS ${tls}`,
          server: server.process,
          load: {
            ...toLoadTarget(server, key, `${DEVICES}/GetDigitalDevice`),
            message: () => message,
            concurrency: 32,
          },
        },
        {
          name: `ListDigitalDevices, 50 of ${mediumSize}, TLS ${tls}`,
          server: server.process,
          load: {
            ...toLoadTarget(server, key, `${DEVICES}/ListDigitalDevices`),
            message: () => encodeListRequest({}),
            concurrency: 32,
          },
        },
      ],
      rounds,
    );
    for (const one of rows) printRatio(one, baseline as Row);
  } finally {
    await echo.stop();
  }
}

function printRatio(one: Row, baseline: Row): void {
  const goal = one.name.startsWith('Get') ? ' (goal: 0.60)' : '';
  print(
    `  -> ${one.name}: ${(one.perSecond / baseline.perSecond).toFixed(2)} of the echo's calls/s${goal}, ${(baseline.cpu / one.cpu).toFixed(2)} by CPU time`,
  );
}

/** Measures a page with one call at a time, so that calls do not wait for each other. */
async function benchGrowth(server: PlantroomServer, keys: ReadonlyMap<number, Key>): Promise<void> {
  const searches: readonly [string, (size: number) => Partial<ListDigitalDevicesRequest>][] = [
    ['no search', () => ({})],
    ['search "boiler" (1 in 100)', () => ({ search: 'boiler' })],
    ['search of one device', (size) => ({ search: String(size - 1).padStart(6, '0') })],
    ['last page by offset', (size) => ({ offset: size - 50 })],
  ];
  for (const [name, fields] of searches) {
    const rows = await compare(
      [...keys].map(([size, key]) => ({
        name: `ListDigitalDevices, ${name}, ${size} devices`,
        server: server.process,
        load: {
          ...toLoadTarget(server, key, `${DEVICES}/ListDigitalDevices`),
          message: () => encodeListRequest(fields(size)),
          concurrency: 1,
        },
      })),
      rounds,
    );
    print(
      `  -> ${name}: p50 at the largest is ${((rows.at(-1) as Row).p50 / (rows[0] as Row).p50).toFixed(2)} times that at the smallest`,
    );
  }
}
