import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';

/** The fields of the `server.ready` log line. */
export interface ReadyLine {
  readonly grpc: string;
  /** The HTTP address, if the server has one. */
  readonly http?: string;
  /** The metrics address, if the server has one. */
  readonly metrics?: string | null;
  readonly ca?: string;
}

/** Waits for the ready line. Throws an error with the output of the process if it exits instead. */
async function waitForReadyLine(file: string, child: ChildProcess): Promise<ReadyLine> {
  for (;;) {
    const output = readFileSync(file, 'utf8');
    const line = output
      .split('\n')
      .slice(0, -1)
      .find((one) => one.includes('"server.ready"'));
    if (line !== undefined) return JSON.parse(line) as ReadyLine;
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`the server exited with ${child.exitCode ?? child.signalCode}: ${output.slice(-4000)}`);
    await setTimeout(POLL_INTERVAL_MS);
  }
}

const POLL_INTERVAL_MS = 20;

/** A server in a separate process, on the first core or on all cores if cores can be chosen. */
export class ServerProcess {
  /** Resolves to the exit code or the signal when the process has exited. */
  readonly ended: Promise<number | string>;

  private constructor(
    private readonly child: ChildProcess,
    readonly ready: ReadyLine,
  ) {
    this.ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal ?? 'no reason')));
  }

  /**
   * Starts a script and waits until it is ready. Throws an error with its output if it exits instead. `isPinned`: it runs
   * on the first core only.
   */
  static async start(
    script: string,
    args: readonly string[],
    env: NodeJS.ProcessEnv = {},
    isPinned = true,
  ): Promise<ServerProcess> {
    const file = join(tmpdir(), `plantroom-bench-${randomUUID()}.log`);
    try {
      return await ServerProcess.run(toCommand(script, args, isPinned), env, file);
    } finally {
      rmSync(file, { force: true }); // the process keeps it open
    }
  }

  /** Starts a command and waits until it is ready; its log file is kept. */
  static async run(command: readonly string[], env: NodeJS.ProcessEnv, file: string): Promise<ServerProcess> {
    // The log goes to a file: a pipe would make the server wait for this process, which is busy with the load.
    const log = openSync(file, 'w');
    const child = spawn(command[0] as string, command.slice(1), {
      env: { ...process.env, ...env },
      stdio: ['ignore', log, log],
    });
    closeSync(log);
    return new ServerProcess(child, await waitForReadyLine(file, child));
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** CPU time used so far, in milliseconds; NaN where the system does not report it. */
  cpuMilliseconds(): number {
    try {
      const fields = readFileSync(`/proc/${this.child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
      return (Number(fields[11]) + Number(fields[12])) * 10; // clock ticks of 10 ms
    } catch {
      return Number.NaN;
    }
  }

  /** Anonymous memory in MiB; NaN where the system does not report it. */
  memoryMegabytes(): number {
    try {
      return Number(/RssAnon:\s+(\d+) kB/.exec(readFileSync(`/proc/${this.child.pid}/status`, 'utf8'))?.[1]) / 1024;
    } catch {
      return Number.NaN;
    }
  }

  /** Sends a signal and waits until the process has exited. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill(signal);
    await ended;
  }
}

/** Returns the command that starts a script, on the first core or on all cores if cores can be chosen. */
export function toCommand(script: string, args: readonly string[], isPinned: boolean): string[] {
  return pinCommand([process.execPath, ...getProfilerFlags(), script, ...args], isPinned);
}

/** Returns the command that runs another command on the first core or on all cores. */
export function pinCommand(command: readonly string[], isPinned: boolean): string[] {
  const cores = isPinned ? '0' : `0-${cpus().length - 1}`; // always set, because a child inherits the cores of this process
  return canPin() ? ['taskset', '-c', cores, ...command] : [...command];
}

/** Moves this process off the core of the servers. Returns whether that is possible. */
export function pinSelf(): boolean {
  return canPin() && spawnSync('taskset', ['-cp', '1', String(process.pid)], { stdio: 'ignore' }).status === 0;
}

/** `--profile FOLDER`: each process writes a CPU profile to the folder. */
function getProfilerFlags(): string[] {
  const at = process.argv.indexOf('--profile');
  return at < 0 ? [] : ['--cpu-prof', '--cpu-prof-dir', process.argv[at + 1] ?? 'profiles'];
}

function canPin(): boolean {
  return spawnSync('taskset', ['-c', '1', 'true'], { stdio: 'ignore' }).status === 0;
}
