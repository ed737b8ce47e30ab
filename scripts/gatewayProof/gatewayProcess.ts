import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as wait } from 'node:timers/promises';
import type { GatewayTrap } from './childTraps';
import type { FromGateway, GatewayOrders, ToGateway } from './gatewayOrders';

export type GatewayReport = Extract<FromGateway, { kind: 'report' }>;

const MAX_RESPONSE_MS = 5000;
/** The maximum time until a started gateway is attached. */
export const MAX_ATTACH_MS = 10_000;

/** The gateway in a separate process, which can be killed and started again on the same files. */
export class GatewayProcess {
  /** How often the gateway was killed, by this process or by itself. */
  kills = 0;
  private child: ChildProcess | undefined;
  private ended: Promise<unknown> = Promise.resolve();
  private attachments = 0;
  private isAttached = false;
  private readonly attachListeners = new Set<() => void>();
  private start = 0;
  private quota = 0;
  private aheadMs = 0;

  constructor(private readonly orders: Omit<GatewayOrders, 'start' | 'aheadMs'>) {}

  /** Starts the gateway, which continues the work of the previous process. */
  run(): void {
    this.start += 1;
    this.isAttached = false;
    const orders: GatewayOrders = { ...this.orders, start: this.start, aheadMs: this.aheadMs };
    const child = spawn(process.execPath, [process.argv[1] as string, 'gateway', JSON.stringify(orders)], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.child = child;
    this.ended = new Promise((resolve) => child.once('exit', resolve));
    child.on('message', (message: FromGateway) => {
      if (message.kind === 'detached') this.isAttached = false;
      if (message.kind !== 'attached') return;
      this.isAttached = true;
      this.attachments += 1;
      for (const notify of this.attachListeners) notify();
    });
    this.sendOrder({ kind: 'quota', uplinks: this.quota });
  }

  /** The total number of attachments. */
  get attached(): number {
    return this.attachments;
  }

  /** Resolves to true when the gateway has attached more than `moreThan` times, to false after `maxMs`. */
  async waitUntilAttached(moreThan: number, maxMs: number): Promise<boolean> {
    if (this.attachments > moreThan) return true;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const onAttached = (): void => resolve(true);
    this.attachListeners.add(onAttached);
    const isAttached = await Promise.race([promise, wait(maxMs, false, { ref: false })]);
    this.attachListeners.delete(onAttached);
    return isAttached;
  }

  /** Resolves to true when the gateway is attached, to false after `maxMs`. */
  async waitUntilOnline(maxMs: number): Promise<boolean> {
    return this.isAttached || (await this.waitUntilAttached(this.attachments, maxMs));
  }

  /** Sets the total number of uplinks that are sent. */
  allow(uplinks: number): void {
    this.quota = uplinks;
    this.sendOrder({ kind: 'quota', uplinks });
  }

  /** Sets by how much its time of day is ahead, also after the next start. */
  setClock(aheadMs: number): void {
    this.aheadMs = aheadMs;
    this.sendOrder({ kind: 'clock', aheadMs });
  }

  /** Makes every device send its position. */
  showPositions(): void {
    this.sendOrder({ kind: 'show' });
  }

  /** Sets the point at which the gateway kills itself. */
  arm(trap: GatewayTrap): void {
    this.sendOrder({ kind: 'trap', trap });
  }

  /** Resolves to true when the process has exited, to false after `withinMs`. */
  async waitForExit(withinMs: number): Promise<boolean> {
    return await Promise.race([this.ended.then(() => true), wait(withinMs, false, { ref: false })]);
  }

  /** Kills the process with SIGKILL, unless it has exited; resolves when it has. */
  async kill(): Promise<void> {
    this.kills += 1;
    this.child?.kill('SIGKILL');
    await this.ended;
  }

  /** Stops the gateway; resolves to its exit code, undefined if it had to be killed. */
  async stop(maxMs: number): Promise<number | undefined> {
    this.sendOrder({ kind: 'stop' });
    if (!(await this.waitForExit(maxMs))) this.child?.kill('SIGKILL');
    await this.ended;
    return this.child?.exitCode ?? undefined;
  }

  /** Asks the gateway for its open work; undefined if it does not respond. */
  async report(): Promise<GatewayReport | undefined> {
    const { child } = this;
    if (!child?.connected) return undefined;
    const received = new Promise<GatewayReport>((resolve) => {
      const onMessage = (message: FromGateway): void => {
        if (message.kind !== 'report') return;
        child.off('message', onMessage);
        resolve(message);
      };
      child.on('message', onMessage);
    });
    this.sendOrder({ kind: 'report' });
    return await Promise.race([
      received,
      this.ended.then(() => undefined),
      wait(MAX_RESPONSE_MS, undefined, { ref: false }),
    ]);
  }

  private sendOrder(order: ToGateway): void {
    if (this.child?.connected) this.child.send(order, () => {}); // the process may exit before it arrives
  }
}
