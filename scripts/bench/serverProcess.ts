import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';

/** The ready line of a server. */
export interface Ready {
  readonly grpc: string;
  /** Of servers that speak HTTP. */
  readonly http?: string;
  /** Of servers that show metrics. */
  readonly metrics?: string | null;
  readonly ca?: string;
}

/** Waits for it. Rejects with what the process said if it ended instead. */
async function readyLine(file: string, child: ChildProcess): Promise<Ready> {
  for (;;) {
    const said = readFileSync(file, 'utf8');
    const line = said.split('\n').slice(0, -1).find((one) => one.includes('"server.ready"'));
    if (line !== undefined) return JSON.parse(line) as Ready;
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`the server ended with ${child.exitCode ?? child.signalCode}: ${said.slice(-4000)}`);
    await setTimeout(LOOK_MS);
  }
}

const LOOK_MS = 20;

/** A server of its own process, on the first core, or on all, where the machine lets us choose. */
export class ServerProcess {
  /** Resolves when the process has ended: its exit code or the signal. */
  readonly ended: Promise<number | string>;

  private constructor(
    private readonly child: ChildProcess,
    readonly ready: Ready,
  ) {
    this.ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal ?? 'no reason')));
  }

  /** Resolves with the ready line; rejects with what the process said if it ended instead. `isPinned`: has the first core and no other. */
  static async start(script: string, args: readonly string[], env: NodeJS.ProcessEnv = {}, isPinned = true): Promise<ServerProcess> {
    const file = join(tmpdir(), `plantroom-bench-${randomUUID()}.log`);
    try {
      return await ServerProcess.run(commandOf(script, args, isPinned), env, file);
    } finally {
      rmSync(file, { force: true }); // it goes with the process
    }
  }

  /** The same with another command, and a log file that stays. */
  static async run(command: readonly string[], env: NodeJS.ProcessEnv, file: string): Promise<ServerProcess> {
    // Its log goes to a file: through a pipe it would wait for this process, which has the load to make.
    const log = openSync(file, 'w');
    const child = spawn(command[0] as string, command.slice(1), { env: { ...process.env, ...env }, stdio: ['ignore', log, log] });
    closeSync(log);
    return new ServerProcess(child, await readyLine(file, child));
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** CPU time used so far, in milliseconds; NaN where the machine does not tell. */
  cpuMilliseconds(): number {
    try {
      const fields = readFileSync(`/proc/${this.child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
      return (Number(fields[11]) + Number(fields[12])) * 10; // clock ticks of 10 ms
    } catch {
      return Number.NaN;
    }
  }

  /** Memory that is its own, in megabytes; NaN where the machine does not tell. */
  memoryMegabytes(): number {
    try {
      return Number(/RssAnon:\s+(\d+) kB/.exec(readFileSync(`/proc/${this.child.pid}/status`, 'utf8'))?.[1]) / 1024;
    } catch {
      return Number.NaN;
    }
  }

  /** Asks it to stop, waits for its end. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill(signal);
    await ended;
  }
}

/** How a program of ours is started: on the first core, or on all, where the machine lets us choose. */
export function commandOf(script: string, args: readonly string[], isPinned: boolean): string[] {
  return onCores([process.execPath, ...profiling(), script, ...args], isPinned);
}

/** The same for a command. */
export function onCores(command: readonly string[], isPinned: boolean): string[] {
  const cores = isPinned ? '0' : `0-${cpus().length - 1}`; // said in any case: it would inherit those of this process
  return canPin() ? ['taskset', '-c', cores, ...command] : [...command];
}

/** Keeps this process off the servers' core. */
export function pinSelf(): boolean {
  return canPin() && spawnSync('taskset', ['-cp', '1', String(process.pid)], { stdio: 'ignore' }).status === 0;
}

/** `--profile FOLDER`: each of them leaves a CPU profile there. */
function profiling(): string[] {
  const at = process.argv.indexOf('--profile');
  return at < 0 ? [] : ['--cpu-prof', '--cpu-prof-dir', process.argv[at + 1] ?? 'profiles'];
}

function canPin(): boolean {
  return spawnSync('taskset', ['-c', '1', 'true'], { stdio: 'ignore' }).status === 0;
}
