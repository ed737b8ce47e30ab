import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as wait } from 'node:timers/promises';
import type { FromServer, ServerOrders, ToServer } from './serverChild';
import type { Trap } from './trapLogger';

const TRIES = 40;
const BETWEEN_TRIES_MS = 50;
const LONGEST_START_MS = 20_000;

type Ready = Extract<FromServer, { kind: 'ready' }>;

/** A server in a process of its own, to be killed. */
export class Victim {
  /** How often a start was refused at most, because PostgreSQL had not yet noticed that the server before was gone. */
  static mostRetries = 0;

  /** Resolves when the process has ended. */
  readonly ended: Promise<void>;

  private constructor(
    private readonly child: ChildProcess,
    private readonly first: Promise<FromServer | undefined>,
  ) {
    this.ended = new Promise((resolve) => child.once('exit', () => resolve()));
  }

  /** Resolves when it serves; to undefined if it was killed before. What an earlier one still holds is waited for. */
  static async start(orders: ServerOrders): Promise<{ victim: Victim; ready: Ready } | undefined> {
    for (let attempt = 1; ; attempt += 1) {
      const victim = Victim.spawn(orders);
      const said = await Promise.race([victim.first, victim.ended.then(() => undefined), wait(LONGEST_START_MS, 'late' as const, { ref: false })]);
      if (said === 'late') throw new Error(`the server did not start within ${LONGEST_START_MS / 1000} s`);
      if (said?.kind === 'ready') return { victim, ready: said };
      await victim.ended;
      if (said === undefined) {
        if (victim.child.signalCode === 'SIGKILL') return undefined;
        throw new Error(`the server ended with ${victim.child.exitCode ?? victim.child.signalCode}`);
      }
      if (said.reason !== 'database_in_use' || attempt === TRIES) throw new Error(`the server did not start: ${said.message}`);
      Victim.mostRetries = Math.max(Victim.mostRetries, attempt);
      await wait(BETWEEN_TRIES_MS);
    }
  }

  private static spawn(orders: ServerOrders): Victim {
    const child = spawn(process.execPath, [process.argv[1] as string, 'serve', JSON.stringify(orders)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    return new Victim(child, new Promise((resolve) => child.once('message', (message) => resolve(message as FromServer))));
  }

  /** It will kill itself at such a line. */
  arm(trap: Trap | undefined): void {
    this.tell({ kind: 'trap', trap });
  }

  /** Puts its clock forward. */
  skip(ms: number): void {
    this.tell({ kind: 'skip', ms });
  }

  /** kill -9; resolves when it has ended. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.ended;
  }

  private tell(order: ToServer): void {
    if (this.child.connected) this.child.send(order, () => {}); // it may die meanwhile
  }
}
