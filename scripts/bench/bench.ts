// npm run bench: what a call costs, as ratios in one run on one machine. The server has one core, the load comes from another.
import { cpus } from 'node:os';
import { join } from 'node:path';
import { GetDigitalDeviceRequest, ListDigitalDevicesRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { fill, richDevice, target } from './fleet';
import { type Load, type Measured, run } from './load';
import { type Key, PlantroomServer } from './plantroomServer';
import { pinSelf, ServerProcess } from './serverProcess';

const short = process.argv.includes('--short');
const rounds = short ? 2 : 7;
const sizes = short ? [1000, 10_000] : [1000, 10_000, 100_000];
const SCOPES = ['devices:read', 'devices:write', 'sensors:read', 'sensors:write', 'connections:write'];
const DEVICES = '/digitaldevice.v2.DigitalDeviceService';
const say = (text: string): void => void process.stdout.write(`${text}\n`);
const get = (id: string): Uint8Array => GetDigitalDeviceRequest.encode(GetDigitalDeviceRequest.fromPartial({ id })).finish();
const list = (fields: Partial<ListDigitalDevicesRequest>): Uint8Array => ListDigitalDevicesRequest.encode(ListDigitalDevicesRequest.fromPartial(fields)).finish();

interface Subject {
  readonly name: string;
  readonly server: ServerProcess;
  readonly load: Load;
}

interface Row extends Measured {
  readonly name: string;
  /** CPU time of the server per call, in microseconds. */
  readonly cpu: number;
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

/** Measures in turns, a second each, and takes the medians: the machine's own ups and downs meet all alike. */
async function compare(subjects: readonly Subject[]): Promise<Row[]> {
  const turns = new Map(subjects.map((subject) => [subject, [] as Row[]]));
  for (const { load } of subjects) await run({ ...load, milliseconds: 1000 });
  for (let round = 0; round < rounds; round += 1) {
    for (const subject of subjects) turns.get(subject)?.push(await turn(subject));
  }
  return subjects.map((subject) => row(subject.name, turns.get(subject) ?? []));
}

async function turn({ name, server, load }: Subject): Promise<Row> {
  const before = server.cpuMilliseconds();
  const measured = await run({ ...load, milliseconds: 1000 });
  return { name, ...measured, cpu: ((server.cpuMilliseconds() - before) * 1000) / measured.calls };
}

function row(name: string, turns: readonly Row[]): Row {
  const of = (field: 'perSecond' | 'p50' | 'p99' | 'cpu'): number => median(turns.map((one) => one[field]));
  const sum = (field: 'calls' | 'failed'): number => turns.reduce((total, one) => total + one[field], 0);
  const all = { name, calls: sum('calls'), failed: sum('failed'), perSecond: of('perSecond'), p50: of('p50'), p99: of('p99'), cpu: of('cpu') };
  const failed = all.failed > 0 ? `  ${all.failed} FAILED` : '';
  say(`  ${name.padEnd(52)}${all.perSecond.toFixed(0).padStart(7)}/s  p50 ${all.p50.toFixed(2).padStart(6)} ms  p99 ${all.p99.toFixed(2).padStart(6)} ms  cpu ${all.cpu.toFixed(0).padStart(5)} us${failed}`);
  if (all.failed > 0) process.exitCode = 1;
  return all;
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
      { name: `ListDigitalDevices, 50 of 10,000, TLS ${tls}`, server: server.process, load: { ...target(server, key, `${DEVICES}/ListDigitalDevices`), message: () => list({}), concurrency: 32 } },
    ]);
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
    })));
    say(`  -> ${name}: p50 at the largest is ${((rows.at(-1) as Row).p50 / (rows[0] as Row).p50).toFixed(2)} times that at the smallest`);
  }
}

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
    say('\ncalls, 32 at once, in turns');
    await calls(plain, keys.get(10_000) as Key);
    await calls(secure, secure.key);
    say('\ngrowth, one call at a time (goal: at most 2.00 without search and with up to 1,000 matches)');
    await growth(plain, keys);
  } finally {
    await Promise.all([plain.remove(), secure.remove()]);
  }
}

void main();
