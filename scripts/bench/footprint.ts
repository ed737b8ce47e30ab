import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { version } from '../../package.json';
import { createDevices } from './fleet';
import { median, print, isShort } from './measure';
import { PlantroomServer } from './plantroomServer';
import { runRestLoad } from './restLoad';
import { pinCommand } from './serverProcess';

const ROUNDS = isShort ? 5 : 15;
const FLEET = 1000;
const LOAD_MS = isShort ? 2000 : 10_000;
const SETTLED_MS = isShort ? 1000 : 3000;
const GOAL_START_MS = 300;
const BUNDLE = join(__dirname, 'main.js');
const BINARY = join(__dirname, 'binary', `plantroom-${version}-${process.platform}-${process.arch}`);

interface Form {
  readonly name: string;
  /** The command that starts it, without arguments. */
  readonly command: readonly string[];
  readonly bytes: number;
}

/**
 * Measures the size, start time and memory, idle and after load, of the bundle and of the single binary, if that was
 * built.
 */
export async function benchFootprint(): Promise<void> {
  const bundle = {
    name: 'bundle',
    command: pinCommand([process.execPath, BUNDLE], false),
    bytes: statSync(BUNDLE).size + getFolderSize(join(__dirname, 'assets')),
  };
  const forms: Form[] = [
    bundle,
    ...(existsSync(BINARY)
      ? [{ name: 'single binary', command: pinCommand([BINARY], false), bytes: statSync(BINARY).size }]
      : []),
  ];
  print(
    `\nfootprint${forms.length === 1 ? '; SKIPPED the single binary: it is not built (npm run build:binary)' : ''}`,
  );
  for (const form of forms) await benchStart(form);
  for (const form of forms) await benchMemory(form);
}

async function benchStart({ name, command, bytes }: Form): Promise<void> {
  const existing = mkdtempSync(join(tmpdir(), 'plantroom-footprint-'));
  try {
    await measureStart(command, existing);
    const times = { first: [] as number[], again: [] as number[], version: [] as number[] };
    for (let round = 0; round < ROUNDS; round += 1) {
      const folder = mkdtempSync(join(tmpdir(), 'plantroom-footprint-'));
      times.first.push(await measureStart(command, folder));
      rmSync(folder, { recursive: true, force: true });
      times.again.push(await measureStart(command, existing));
      times.version.push(measureCommand(command, 'version'));
    }
    print(
      `  ${name.padEnd(14)} ${(bytes / 1e6).toFixed(1)} MB  server.ready after ${formatMs(times.again)} (goal: ${GOAL_START_MS}), on a new folder ${formatMs(times.first)}; version ${formatMs(times.version)}`,
    );
  } finally {
    rmSync(existing, { recursive: true, force: true });
  }
}

const formatMs = (values: readonly number[]): string =>
  `${median(values).toFixed(0)} ms (min ${Math.min(...values).toFixed(0)})`;

/** Measures the time from the start of the process until it logs that it is ready, in milliseconds. */
async function measureStart(command: readonly string[], dataDir: string): Promise<number> {
  const env = {
    ...process.env,
    PLANTROOM_DATA_DIR: dataDir,
    PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
    PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
    PLANTROOM_METRICS_LISTEN: '127.0.0.1:0',
  };
  const since = performance.now();
  const child = spawn(command[0] as string, [...command.slice(1), 'serve'], {
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  await waitUntilReady(child);
  const milliseconds = performance.now() - since;
  child.kill('SIGTERM');
  await once(child, 'exit');
  return milliseconds;
}

async function waitUntilReady(child: ChildProcess): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      if (line.includes('"server.ready"')) resolve();
    });
    child.once('close', (code) => reject(new Error(`the server exited with code ${code}`)));
  });
}

function measureCommand(command: readonly string[], word: string): number {
  const since = performance.now();
  const { status } = spawnSync(command[0] as string, [...command.slice(1), word]);
  if (status !== 0) throw new Error(`${command.join(' ')} ${word} exited with code ${status}`);
  return performance.now() - since;
}

async function benchMemory({ name, command }: Form): Promise<void> {
  const server = await PlantroomServer.start({}, { launch: command });
  try {
    await setTimeout(SETTLED_MS);
    const idle = formatMemory(server.process.pid);
    await createDevices(server, server.key, FLEET, () => {});
    await runRestLoad(
      {
        address: server.process.ready.http ?? '',
        ca: server.ca,
        headers: server.headers(),
        verb: 'GET',
        status: 200,
        concurrency: 32,
        path: '/api/v2/devices',
      },
      LOAD_MS,
    );
    await setTimeout(SETTLED_MS);
    print(
      `  ${name.padEnd(14)} memory idle ${idle}; after ${LOAD_MS / 1000} s of listing ${FLEET} devices, 32 concurrent: ${formatMemory(server.process.pid)}`,
    );
  } finally {
    await server.remove();
  }
}

/** Formats resident memory, proportional set size (PSS) and anonymous memory of a process. */
function formatMemory(pid: number): string {
  const readMib = (file: string, name: string): string =>
    (
      Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/${file}`, 'utf8'))?.[1]) / 1024
    ).toFixed(0);
  return process.platform === 'linux'
    ? `${readMib('status', 'VmRSS')} MiB (PSS ${readMib('smaps_rollup', 'Pss')}, anonymous ${readMib('status', 'RssAnon')})`
    : 'not available on this system';
}

function getFolderSize(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}
