import { join } from 'node:path';
import { GetDigitalDeviceRequest, ListDigitalDevicesRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { DEVICES, fill, richDevice, target } from './fleet';
import { compare, type Row, say, short } from './measure';
import { type Key, PlantroomServer } from './plantroomServer';
import { ServerProcess } from './serverProcess';

const rounds = short ? 2 : 7;
const middle = short ? 5000 : 10_000;
const sizes = short ? [1000, middle] : [1000, middle, 100_000];
const SCOPES = ['devices:read', 'devices:write', 'sensors:read', 'sensors:write', 'connections:write'];
const get = (id: string): Uint8Array => GetDigitalDeviceRequest.encode(GetDigitalDeviceRequest.fromPartial({ id })).finish();
const list = (fields: Partial<ListDigitalDevicesRequest>): Uint8Array => ListDigitalDevicesRequest.encode(ListDigitalDevicesRequest.fromPartial(fields)).finish();

/** What a small call and a page cost, against a bare grpc-js server, with TLS and without; and that a page does not cost more where there are more devices. */
export async function benchCalls(): Promise<void> {
  const plain = await PlantroomServer.start({ PLANTROOM_TLS_MODE: 'off' });
  const secure = await PlantroomServer.start();
  try {
    say('\nfilling');
    const keys = new Map<number, Key>();
    for (const size of sizes) {
      const key = plain.organization(`Fleet of ${size}`, SCOPES);
      keys.set(size, key);
      await fill(plain, key, size, (text) => say(`  ${text}`));
    }
    await fill(secure, secure.key, middle, (text) => say(`  TLS on: ${text}`));
    say('\ncalls, 32 at once, in turns');
    await calls(plain, keys.get(middle) as Key);
    await calls(secure, secure.key);
    say('\ngrowth, one call at a time (goal: at most 2.00 without search and with up to 1,000 matches)');
    await growth(plain, keys);
  } finally {
    await Promise.all([plain.remove(), secure.remove()]);
  }
}

/** The echo, a get and a page on the same kind of port. */
async function calls(server: PlantroomServer, key: Key): Promise<void> {
  const tls = server.ca ? 'on' : 'off';
  const echo = await ServerProcess.start(join(__dirname, 'bench-echo.js'), server.ca ? [join(server.folder, 'data', 'tls')] : []);
  try {
    const message = get(await richDevice(server, key));
    const echoUrl = `${server.ca ? 'https' : 'http'}://${echo.ready.grpc}`;
    const [yardstick, ...rows] = await compare([
      { name: `bare grpc-js echo, TLS ${tls}`, server: echo, load: { url: echoUrl, ca: server.ca, path: `${DEVICES}/GetDigitalDevice`, headers: {}, message: () => message, concurrency: 32 } },
      { name: `GetDigitalDevice, everything on, TLS ${tls}`, server: server.process, load: { ...target(server, key, `${DEVICES}/GetDigitalDevice`), message: () => message, concurrency: 32 } },
      { name: `ListDigitalDevices, 50 of ${middle}, TLS ${tls}`, server: server.process, load: { ...target(server, key, `${DEVICES}/ListDigitalDevices`), message: () => list({}), concurrency: 32 } },
    ], rounds);
    for (const one of rows) ratio(one, yardstick as Row);
  } finally {
    await echo.stop();
  }
}

function ratio(one: Row, yardstick: Row): void {
  const goal = one.name.startsWith('Get') ? ' (goal: 0.60)' : '';
  say(`  -> ${one.name}: ${(one.perSecond / yardstick.perSecond).toFixed(2)} of the echo's calls/s${goal}, ${(yardstick.cpu / one.cpu).toFixed(2)} by CPU time`);
}

/** One call at a time: what a page costs, without waiting for others. */
async function growth(server: PlantroomServer, keys: ReadonlyMap<number, Key>): Promise<void> {
  const searches: readonly [string, (size: number) => Partial<ListDigitalDevicesRequest>][] = [
    ['no search', () => ({})],
    ['search "boiler" (1 in 100)', () => ({ search: 'boiler' })],
    ['search of one device', (size) => ({ search: String(size - 1).padStart(6, '0') })],
    ['last page by offset', (size) => ({ offset: size - 50 })],
  ];
  for (const [name, fields] of searches) {
    const rows = await compare([...keys].map(([size, key]) => ({
      name: `ListDigitalDevices, ${name}, ${size} devices`,
      server: server.process,
      load: { ...target(server, key, `${DEVICES}/ListDigitalDevices`), message: () => list(fields(size)), concurrency: 1 },
    })), rounds);
    say(`  -> ${name}: p50 at the largest is ${((rows.at(-1) as Row).p50 / (rows[0] as Row).p50).toFixed(2)} times that at the smallest`);
  }
}
