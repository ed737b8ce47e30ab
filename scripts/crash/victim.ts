import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import type { FromServer, ServerOrders, ToServer } from './serverChild';
import type { Trap } from './trapLogger';

const MAX_START_MS = 20_000;
/** As in a small container. Without a limit, V8 collects garbage later on a machine with much memory. */
const MAX_HEAP_MIB = 256;

type ReadyMessage = Extract<FromServer, { kind: 'ready' }>;

/** A server in a separate process that is going to be killed. */
export class Victim {
  /** Resolves when the process has ended. */
  readonly ended: Promise<void>;

  private constructor(
    private readonly child: ChildProcess,
    private readonly first: Promise<FromServer | undefined>,
  ) {
    this.ended = new Promise((resolve) => child.once('exit', () => resolve()));
  }

  /** Resolves when the server is ready; to undefined if it was killed before. */
  static async start(orders: ServerOrders): Promise<{ victim: Victim; ready: ReadyMessage } | undefined> {
    const victim = Victim.spawn(orders);
    const late = wait(MAX_START_MS, 'late' as const, { ref: false });
    const message = await Promise.race([victim.first, victim.ended.then(() => undefined), late]);
    if (message === 'late') throw new Error(`the server did not start within ${MAX_START_MS / 1000} s`);
    if (message?.kind === 'ready') return { victim, ready: message };
    await victim.ended;
    if (message) throw new Error(`the server did not start: ${message.message}`);
    if (victim.child.signalCode === 'SIGKILL') return undefined;
    throw new Error(`the server exited with ${victim.child.exitCode ?? victim.child.signalCode}`);
  }

  /** Whether the process has exited. */
  get hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  private static spawn(orders: ServerOrders): Victim {
    const program = [process.argv[1] as string, 'serve', JSON.stringify(orders)];
    const child = spawn(process.execPath, [`--max-old-space-size=${MAX_HEAP_MIB}`, ...program], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      env: { ...process.env, MALLOC_ARENA_MAX: '2' }, // as in the container image and the systemd unit
    });
    return new Victim(
      child,
      new Promise((resolve) => child.once('message', (message) => resolve(message as FromServer))),
    );
  }

  /** Sets the log line at which the server kills itself. */
  arm(trap: Trap | undefined): void {
    this.sendOrder({ kind: 'trap', trap });
  }

  /** Moves the server's clock forward. */
  advanceClock(ms: number): void {
    this.sendOrder({ kind: 'skip', ms });
  }

  /** Kills the process with SIGKILL; resolves when it has exited. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.ended;
  }

  /** Shuts the server down gracefully, and waits until it has exited. */
  async stop(): Promise<void> {
    this.sendOrder({ kind: 'stop' });
    await this.ended;
  }

  /** The peak resident memory in MiB; 0 where the system does not report it. */
  peakMemoryMib(): number {
    const status = `/proc/${this.child.pid}/status`;
    if (!existsSync(status)) return 0;
    return Math.round(Number(/VmHWM:\s+(\d+)/.exec(readFileSync(status, 'utf8'))?.[1] ?? 0) / 1024);
  }

  /** For how long the main thread was ready to run but had no core, in milliseconds; 0 where it is not reported. */
  waitedForCoreMs(): number {
    const file = `/proc/${this.child.pid}/schedstat`;
    return existsSync(file) ? Number(readFileSync(file, 'utf8').split(' ')[1]) / 1e6 : 0;
  }

  private sendOrder(order: ToServer): void {
    if (this.child.connected) this.child.send(order, () => {}); // the process may exit before it arrives
  }
}
