import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { createInterface } from 'node:readline';

/** The ready line of a server. */
export interface Ready {
  readonly grpc: string;
  /** Of servers that speak HTTP. */
  readonly http?: string;
  readonly ca?: string;
}

/** A server of its own process, on the first core, or on all, where the machine lets us choose. */
export class ServerProcess {
  private constructor(
    private readonly child: ChildProcess,
    readonly ready: Ready,
  ) {}

  /** Resolves with the ready line; rejects with what the process said if it ended instead. `isPinned`: has the first core and no other. */
  static async start(script: string, args: readonly string[], env: NodeJS.ProcessEnv = {}, isPinned = true): Promise<ServerProcess> {
    const command = [process.execPath, ...profiling(), script, ...args];
    const cores = isPinned ? '0' : `0-${cpus().length - 1}`; // said in any case: it would inherit those of this process
    const pinned = canPin() ? ['taskset', '-c', cores, ...command] : command;
    const child = spawn(pinned[0] as string, pinned.slice(1), { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    child.stderr.on('data', (chunk: Buffer) => {
      said = (said + chunk.toString()).slice(-4000);
    });
    const lines = createInterface({ input: child.stdout });
    const ready = await new Promise<Ready>((resolve, reject) => {
      lines.on('line', (line) => {
        said = `${said}${line}\n`.slice(-4000);
        if (line.includes('"server.ready"')) resolve(JSON.parse(line) as Ready);
      });
      child.on('exit', (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
    });
    lines.close();
    child.stdout.resume(); // to read its log line by line would take time from the load
    return new ServerProcess(child, ready);
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

/** Keeps this process off the servers' core. */
export function pinSelf(): boolean {
  return canPin() && spawnSync('taskset', ['-cp', '1', String(process.pid)], { stdio: 'ignore' }).status === 0;
}

/** `--profile FOLDER`: each server leaves a CPU profile there. */
function profiling(): string[] {
  const at = process.argv.indexOf('--profile');
  return at < 0 ? [] : ['--cpu-prof', '--cpu-prof-dir', process.argv[at + 1] ?? 'profiles'];
}

function canPin(): boolean {
  return spawnSync('taskset', ['-c', '1', 'true'], { stdio: 'ignore' }).status === 0;
}
