import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { version } from '../../package.json';
import { fill } from './fleet';
import { median, say, short } from './measure';
import { PlantroomServer } from './plantroomServer';
import { runRest } from './restLoad';
import { onCores } from './serverProcess';

const ROUNDS = short ? 5 : 15;
const FLEET = 1000;
const LOAD_MS = short ? 2000 : 10_000;
const SETTLED_MS = short ? 1000 : 3000;
const GOAL_START_MS = 300;
const BUNDLE = join(__dirname, 'main.js');
const BINARY = join(__dirname, 'binary', `plantroom-${version}-${process.platform}-${process.arch}`);

interface Form {
  readonly name: string;
  /** What starts it, before the words of a command. */
  readonly command: readonly string[];
  readonly bytes: number;
}

/** How large the program is, how fast it starts, and what memory it takes at rest and after work: as a bundle, and as the single binary where that was built. */
export async function benchFootprint(): Promise<void> {
  const bundle = { name: 'bundle', command: onCores([process.execPath, BUNDLE], false), bytes: statSync(BUNDLE).size + bytesBelow(join(__dirname, 'assets')) };
  const forms: Form[] = [bundle, ...(existsSync(BINARY) ? [{ name: 'single binary', command: onCores([BINARY], false), bytes: statSync(BINARY).size }] : [])];
  say(`\nfootprint${forms.length === 1 ? '; the single binary was not built (npm run build:binary)' : ''}`);
  for (const form of forms) await starts(form);
  for (const form of forms) await memory(form);
}

async function starts({ name, command, bytes }: Form): Promise<void> {
  const existing = mkdtempSync(join(tmpdir(), 'plantroom-footprint-'));
  try {
    await startMs(command, existing);
    const times = { anew: [] as number[], again: [] as number[], version: [] as number[] };
    for (let round = 0; round < ROUNDS; round += 1) {
      const folder = mkdtempSync(join(tmpdir(), 'plantroom-footprint-'));
      times.anew.push(await startMs(command, folder));
      rmSync(folder, { recursive: true, force: true });
      times.again.push(await startMs(command, existing));
      times.version.push(commandMs(command, 'version'));
    }
    say(`  ${name.padEnd(14)} ${(bytes / 1e6).toFixed(1)} MB  server.ready after ${ms(times.again)} (goal: ${GOAL_START_MS}), on a new folder ${ms(times.anew)}; version ${ms(times.version)}`);
  } finally {
    rmSync(existing, { recursive: true, force: true });
  }
}

const ms = (values: readonly number[]): string => `${median(values).toFixed(0)} ms (least ${Math.min(...values).toFixed(0)})`;

/** From the start of the process until its log says that it is ready, in milliseconds. */
async function startMs(command: readonly string[], dataDir: string): Promise<number> {
  const env = { ...process.env, PLANTROOM_DATA_DIR: dataDir, PLANTROOM_GRPC_LISTEN: '127.0.0.1:0', PLANTROOM_HTTP_LISTEN: '127.0.0.1:0', PLANTROOM_METRICS_LISTEN: '127.0.0.1:0' };
  const since = performance.now();
  const child = spawn(command[0] as string, [...command.slice(1), 'serve'], { env, stdio: ['ignore', 'pipe', 'ignore'] });
  await ready(child);
  const milliseconds = performance.now() - since;
  child.kill('SIGTERM');
  await once(child, 'exit');
  return milliseconds;
}

async function ready(child: ChildProcess): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      if (line.includes('"server.ready"')) resolve();
    });
    child.once('close', (code) => reject(new Error(`the server ended with ${code}`)));
  });
}

function commandMs(command: readonly string[], word: string): number {
  const since = performance.now();
  const { status } = spawnSync(command[0] as string, [...command.slice(1), word]);
  if (status !== 0) throw new Error(`${command.join(' ')} ${word} ended with ${status}`);
  return performance.now() - since;
}

async function memory({ name, command }: Form): Promise<void> {
  const server = await PlantroomServer.start({}, { launch: command });
  try {
    await setTimeout(SETTLED_MS);
    const idle = memoryText(server.process.pid);
    await fill(server, server.key, FLEET, () => {});
    await runRest({ address: server.process.ready.http ?? '', ca: server.ca, headers: server.headers(), verb: 'GET', status: 200, concurrency: 32, path: '/api/v2/devices' }, LOAD_MS);
    await setTimeout(SETTLED_MS);
    say(`  ${name.padEnd(14)} memory at rest ${idle}; after ${LOAD_MS / 1000} s of pages of ${FLEET} devices, 32 at once: ${memoryText(server.process.pid)}`);
  } finally {
    await server.remove();
  }
}

/** All that the process holds, and its share of it: pages of the program that others hold too count in part. */
function memoryText(pid: number): string {
  const of = (file: string, name: string): string => (Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/${file}`, 'utf8'))?.[1]) / 1024).toFixed(0);
  return process.platform === 'linux' ? `${of('status', 'VmRSS')} MiB (PSS ${of('smaps_rollup', 'Pss')}, its own ${of('status', 'RssAnon')})` : 'not told by this machine';
}

function bytesBelow(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}
