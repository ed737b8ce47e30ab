import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';

const MAIN = join(__dirname, '..', '..', 'dist', 'main.js');

/** The exit code and the output of a command. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `plantroom` with these arguments to its end, with only these PLANTROOM_ variables. */
export async function plantroom(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  input = '',
): Promise<Ended> {
  return await getEnd(start(args, env), input);
}

/**
 * Runs `plantroom` from a script of `sh`, in which `"$@"` is the command. The script can set limits and redirect the
 * output.
 */
export async function plantroomInShell(
  script: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  return await getEnd(spawned('sh', ['-c', script, 'sh', process.execPath, MAIN, ...args], env), '');
}

/**
 * Starts `plantroom` with these arguments and kills it once `moment` resolves, as a power cut would. Returns false if
 * it had ended before.
 */
export async function plantroomKilled(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  moment: () => Promise<void>,
): Promise<boolean> {
  const child = start(args, env);
  const ended = once(child, 'exit');
  for (const stream of [child.stdout, child.stderr]) stream?.resume();
  await Promise.race([moment(), ended]);
  child.kill('SIGKILL');
  const [, signal] = (await ended) as [number | null, NodeJS.Signals | null];
  return signal === 'SIGKILL';
}

async function getEnd(child: ChildProcess, input: string): Promise<Ended> {
  child.stdin?.end(input);
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout as NodeJS.ReadableStream),
    text(child.stderr as NodeJS.ReadableStream),
    once(child, 'exit'),
  ]);
  return { code: code as number | null, stdout, stderr };
}

/** A running `plantroom serve`. */
export interface ServeProcess {
  /** The log line `server.ready`. */
  readonly ready: Readonly<Record<string, unknown>>;
  /** Returns its error output so far. */
  readonly stderr: () => string;
  /** Returns its log so far, one line per event. */
  readonly stdout: () => string;
  readonly child: ChildProcess;
  /** Sends the signal and waits for the exit. Resolves with the exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/**
 * Starts `plantroom serve` and waits until it is ready. Throws with its output if it ends instead. `script` works as in
 * plantroomInShell.
 */
export async function plantroomServe(env: Readonly<Record<string, string>>, script?: string): Promise<ServeProcess> {
  const child =
    script === undefined
      ? start(['serve'], env)
      : spawned('sh', ['-c', script, 'sh', process.execPath, MAIN, 'serve'], env);
  let stderr = '';
  let stdout = '';
  child.stdout?.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const ended = once(child, 'exit');
  const ready = await new Promise<Record<string, unknown>>((resolve, reject) => {
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      const fields = JSON.parse(line) as Record<string, unknown>;
      if (fields['event'] === 'server.ready') resolve(fields);
    });
    child.once('close', (code) => reject(new Error(`plantroom serve ended with ${code}: ${stderr}`)));
  });
  const stop = async (signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> => {
    child.kill(signal);
    const [code] = (await ended) as [number | null];
    return code;
  };
  return { ready, stderr: () => stderr, stdout: () => stdout, child, stop };
}

function start(args: readonly string[], env: Readonly<Record<string, string>>): ChildProcess {
  // Test servers run concurrently, and must not fill the disk.
  const sharedMachineSettings: Readonly<Record<string, string>> =
    args[0] === 'serve' ? { PLANTROOM_METRICS_LISTEN: 'off', PLANTROOM_DATABASE_DISK_RESERVE_MIB: '0' } : {};
  return spawned(process.execPath, [MAIN, ...args], { ...sharedMachineSettings, ...env });
}

function spawned(program: string, args: readonly string[], env: Readonly<Record<string, string>>): ChildProcess {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('PLANTROOM_'));
  return spawn(program, [...args], {
    env: { ...Object.fromEntries(inherited), ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
}
