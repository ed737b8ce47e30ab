// npm run bench: what a call costs, as ratios in one run on one machine. The server has one core, the load comes from another.
import { cpus } from 'node:os';
import { join } from 'node:path';
import { GetDigitalDeviceRequest, ListDigitalDevicesRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { fill, richDevice, target } from './fleet';
import { type Load, type Measured, run } from './load';
import { type Key, PlantroomServer } from './plantroomServer';
import { pinSelf, ServerProcess } from './serverProcess';

const short = process.argv.includes('--short');
const seconds = short ? 1 : 5;
const sizes = short ? [1000, 10_000] : [1000, 10_000, 100_000];
const SCOPES = ['devices:read', 'devices:write', 'sensors:read', 'sensors:write', 'connections:write'];
const DEVICES = '/digitaldevice.v2.DigitalDeviceService';
const say = (text: string): void => void process.stdout.write(`${text}\n`);
const get = (id: string): Uint8Array => GetDigitalDeviceRequest.encode(GetDigitalDeviceRequest.fromPartial({ id })).finish();
const list = (fields: Partial<ListDigitalDevicesRequest>): Uint8Array => ListDigitalDevicesRequest.encode(ListDigitalDevicesRequest.fromPartial(fields)).finish();

interface Row extends Measured {
  readonly name: string;
  /** CPU time of the server per call, in microseconds. */
  readonly cpu: number;
}

/** Warms up, then measures; the server's CPU time is that of the measured calls. */
async function measure(name: string, server: ServerProcess, load: Load): Promise<Row> {
  await run({ ...load, milliseconds: seconds * 400 });
  const before = server.cpuMilliseconds();
  const measured = await run({ ...load, milliseconds: seconds * 1000 });
  const row = { name, ...measured, cpu: ((server.cpuMilliseconds() - before) * 1000) / measured.calls };
  const failed = row.failed > 0 ? `  ${row.failed} FAILED` : '';
  say(`  ${name.padEnd(52)}${row.perSecond.toFixed(0).padStart(7)}/s  p50 ${row.p50.toFixed(2).padStart(6)} ms  p99 ${row.p99.toFixed(2).padStart(6)} ms  cpu ${row.cpu.toFixed(0).padStart(5)} us${failed}`);
  if (row.failed > 0) process.exitCode = 1;
  return row;
}

async function echo(tls: PlantroomServer | undefined): Promise<Row> {
  const server = await ServerProcess.start(join(__dirname, 'bench-echo.js'), tls ? [join(tls.folder, 'data', 'tls')] : []);
  try {
    const message = get('019a9d6a-2f00-7000-8000-000000000001');
    const url = `${tls ? 'https' : 'http'}://${server.ready.grpc}`;
    return await measure(`bare grpc-js echo, TLS ${tls ? 'on' : 'off'}`, server, { url, ca: tls?.ca, path: `${DEVICES}/GetDigitalDevice`, headers: {}, message: () => message, concurrency: 32 });
  } finally {
    await server.stop();
  }
}

async function calls(server: PlantroomServer, key: Key, deviceId: string, tls: string): Promise<[Row, Row]> {
  const one = await measure(`GetDigitalDevice, everything on, TLS ${tls}`, server.process, { ...target(server, key, `${DEVICES}/GetDigitalDevice`), message: () => get(deviceId), concurrency: 32 });
  const page = await measure(`ListDigitalDevices, 50 of 10,000, TLS ${tls}`, server.process, { ...target(server, key, `${DEVICES}/ListDigitalDevices`), message: () => list({}), concurrency: 32 });
  return [one, page];
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
    const rows: Row[] = [];
    for (const [size, key] of keys) {
      rows.push(await measure(`ListDigitalDevices, ${name}, ${size} devices`, server.process, { ...target(server, key, `${DEVICES}/ListDigitalDevices`), message: () => list(fields(size)), concurrency: 1 }));
    }
    const [first, last] = [rows[0] as Row, rows.at(-1) as Row];
    say(`  -> ${name}: p50 at the largest is ${(last.p50 / first.p50).toFixed(2)} times that at the smallest`);
  }
}

const ratio = (name: string, row: Row, yardstick: Row): void =>
  say(`  ${name.padEnd(52)} ${(row.perSecond / yardstick.perSecond).toFixed(2)} of its calls/s, ${(yardstick.cpu / row.cpu).toFixed(2)} by CPU time`);

async function main(): Promise<void> {
  say(`plantroom bench${short ? ' --short' : ''}: node ${process.version}, ${cpus()[0]?.model ?? 'unknown CPU'}, ${cpus().length} cores, server ${pinSelf() ? 'on one core of its own' : 'not pinned: no taskset here'}`);
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
    await fill(secure, secure.key, 10_000, (text) => say(`  TLS on: ${text}`));
    const plainKey = keys.get(10_000) as Key;
    const [plainDevice, secureDevice] = [await richDevice(plain, plainKey), await richDevice(secure, secure.key)];
    say('\ncalls, 32 at once');
    const [echoPlain, echoSecure] = [await echo(undefined), await echo(secure)];
    const [getPlain, listPlain] = await calls(plain, plainKey, plainDevice, 'off');
    const [getSecure, listSecure] = await calls(secure, secure.key, secureDevice, 'on');
    say('\nratio to the bare echo with the same TLS (goal for GetDigitalDevice: 0.60)');
    ratio('GetDigitalDevice, TLS off', getPlain, echoPlain);
    ratio('GetDigitalDevice, TLS on', getSecure, echoSecure);
    ratio('GetDigitalDevice, TLS on, to the echo without', getSecure, echoPlain);
    ratio('ListDigitalDevices, TLS off', listPlain, echoPlain);
    ratio('ListDigitalDevices, TLS on', listSecure, echoSecure);
    say('\ngrowth, one call at a time (goal: at most 2.00 without search and with up to 1,000 matches)');
    await growth(plain, keys);
  } finally {
    await Promise.all([plain.remove(), secure.remove()]);
  }
}

void main();
