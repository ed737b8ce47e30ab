import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { version } from '../../package.json';

/** The path of the binary for this machine. */
export const BINARY = resolve(`dist/binary/plantroom-${version}-${process.platform}-${process.arch}`);

/** Runs a system command until it exits, with only `env` as its environment. */
export async function runCommand(
  command: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd = '/',
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  const child = spawn(command[0] as string, command.slice(1), { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  return { code: code as number | null, stdout, stderr };
}

/** A running server. */
export interface RunningServer {
  readonly pid: number;
  /** The base URL, for example `http://127.0.0.1:41234`. */
  readonly base: string;
  /** Returns the log so far. */
  readonly log: () => string;
  /** The headers with its first API key. Only the first start prints one. */
  readonly headers: Readonly<Record<string, string>>;
  end(signal: NodeJS.Signals): Promise<void>;
}

/** Returns the settings of a test server on a data folder, without TLS and on free ports. */
export function createSettings(dataDir: string): Record<string, string> {
  const ports = {
    PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
    PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
    PLANTROOM_METRICS_LISTEN: 'off',
  };
  return { ...ports, PLANTROOM_DATA_DIR: dataDir, PLANTROOM_TLS_MODE: 'off', PLANTROOM_DATABASE_DISK_RESERVE_MIB: '0' };
}

/** Starts a server with a command that ends in `serve`. Throws with its output if it exits instead. */
export async function startServer(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  cwd = '/',
): Promise<RunningServer> {
  const child = spawn(command[0] as string, command.slice(1), { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  process.once('exit', () => child.kill('SIGKILL'));
  let log = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (log += chunk.toString()));
  const exited = once(child, 'exit');
  const { pid, http } = await getReady(child, () => log);
  const [, key = ''] = /PLANTROOM_API_KEY=(\S+)/.exec(log) ?? [];
  const [, organizationId = ''] = /PLANTROOM_ORGANIZATION_ID=(\S+)/.exec(log) ?? [];
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    process.kill(pid, signal); // The launcher, such as unshare, does not forward signals.
    await exited;
  };
  return {
    pid,
    base: `http://${http}`,
    log: () => log,
    headers: { 'x-api-key': key, 'x-organization-id': organizationId },
    end,
  };
}

async function getReady(
  child: ChildProcess,
  log: () => string,
): Promise<{ readonly pid: number; readonly http: string }> {
  return await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      if (line.includes('"server.ready"')) resolve(JSON.parse(line) as { pid: number; http: string });
    });
    child.once('close', (code) => reject(new Error(`the server ended with ${code}: ${log()}`)));
  });
}

/** Whether this machine allows private mounts for a process. */
export const canMount = spawnSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/tmp']).status === 0;
