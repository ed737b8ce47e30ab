import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as wait } from 'node:timers/promises';
import type { GatewayTrap } from './childTraps';
import type { FromGateway, GatewayOrders, ToGateway } from './gatewayOrders';

export type GatewayReport = Extract<FromGateway, { kind: 'report' }>;

const LONGEST_ANSWER_MS = 5000;

/** The gateway in a process of its own, to be killed and started again on the same files. */
export class GatewayProcess {
  /** How often it was killed by this side or by itself. */
  kills = 0;
  private child: ChildProcess | undefined;
  private ended: Promise<unknown> = Promise.resolve();
  private attachments = 0;
  private isAttached = false;
  private readonly whenAttached = new Set<() => void>();
  private start = 0;
  private quota = 0;
  private aheadMs = 0;

  constructor(private readonly orders: Omit<GatewayOrders, 'start' | 'aheadMs'>) {}

  /** Starts it; it goes on where the one before was. */
  run(): void {
    this.start += 1;
    this.isAttached = false;
    const orders: GatewayOrders = { ...this.orders, start: this.start, aheadMs: this.aheadMs };
    const child = spawn(process.execPath, [process.argv[1] as string, 'gateway', JSON.stringify(orders)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    this.child = child;
    this.ended = new Promise((resolve) => child.once('exit', resolve));
    child.on('message', (message: FromGateway) => {
      if (message.kind === 'detached') this.isAttached = false;
      if (message.kind !== 'attached') return;
      this.isAttached = true;
      this.attachments += 1;
      for (const tell of this.whenAttached) tell();
    });
    this.tell({ kind: 'quota', uplinks: this.quota });
  }

  /** How often it attached, in all. */
  get attached(): number {
    return this.attachments;
  }

  /** Resolves when it has attached more often than that; to false if it takes too long. */
  async attaches(moreThan: number, longestMs: number): Promise<boolean> {
    if (this.attachments > moreThan) return true;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const tell = (): void => resolve(true); // the next one is more
    this.whenAttached.add(tell);
    const isAttached = await Promise.race([promise, wait(longestMs, false, { ref: false })]);
    this.whenAttached.delete(tell);
    return isAttached;
  }

  /** Resolves when it is attached; to false if that takes too long. */
  async isBack(longestMs: number): Promise<boolean> {
    return this.isAttached || (await this.attaches(this.attachments, longestMs));
  }

  /** So many uplinks are to be kept in all. */
  allow(uplinks: number): void {
    this.quota = uplinks;
    this.tell({ kind: 'quota', uplinks });
  }

  /** Its time of day is so far ahead, also after its next start. */
  setClock(aheadMs: number): void {
    this.aheadMs = aheadMs;
    this.tell({ kind: 'clock', aheadMs });
  }

  show(): void {
    this.tell({ kind: 'show' });
  }

  /** It will kill itself there. */
  arm(trap: GatewayTrap): void {
    this.tell({ kind: 'trap', trap });
  }

  /** Resolves when it has ended by itself, to false if it has not by then. */
  async dies(withinMs: number): Promise<boolean> {
    return await Promise.race([this.ended.then(() => true), wait(withinMs, false, { ref: false })]);
  }

  /** kill -9, unless it has ended; resolves when it has. */
  async kill(): Promise<void> {
    this.kills += 1;
    this.child?.kill('SIGKILL');
    await this.ended;
  }

  /** Ends it in peace; resolves to its exit code, undefined: it had to be killed. */
  async stop(longestMs: number): Promise<number | undefined> {
    this.tell({ kind: 'stop' });
    if (!(await this.dies(longestMs))) this.child?.kill('SIGKILL');
    await this.ended;
    return this.child?.exitCode ?? undefined;
  }

  /** What it still has to do; undefined: it does not answer. */
  async report(): Promise<GatewayReport | undefined> {
    const { child } = this;
    if (!child?.connected) return undefined;
    const told = new Promise<GatewayReport>((resolve) => {
      const look = (message: FromGateway): void => {
        if (message.kind !== 'report') return;
        child.off('message', look);
        resolve(message);
      };
      child.on('message', look);
    });
    this.tell({ kind: 'report' });
    return await Promise.race([told, this.ended.then(() => undefined), wait(LONGEST_ANSWER_MS, undefined, { ref: false })]);
  }

  private tell(order: ToGateway): void {
    if (this.child?.connected) this.child.send(order, () => {}); // it may die meanwhile
  }
}
