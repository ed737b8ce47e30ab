import { setTimeout as wait } from 'node:timers/promises';
import { type Gateway, GatewayError } from '../../src/client/gateway';
import type { GatewayOrders } from './gatewayOrders';
import type { WorldFile } from './worldFile';

const MAX_CONCURRENT = 16;
const VALUES_PER_START = 1_000_000;
const RETRY_INTERVAL_MS = 20;
const EXPECTED_ERRORS: ReadonlySet<string> = new Set(['store_full', 'store_failed', 'uplinks_full']);

/** The devices that send uplinks, up to an allowed number. Every value is unique across processes. */
export class Meters {
  /** The number of uplinks that the gateway accepted, including those of earlier processes. */
  sent: number;
  private allowed = 0;
  private startedCount: number;
  private next: number;
  private running = 0;

  constructor(
    private readonly gateway: Pick<Gateway, 'send'>,
    private readonly world: WorldFile,
    private readonly orders: Pick<GatewayOrders, 'start' | 'meters'>,
    sent: number,
  ) {
    this.sent = sent;
    this.startedCount = sent;
    this.next = orders.start * VALUES_PER_START;
  }

  /** Sets the total number of uplinks. */
  allow(total: number): void {
    this.allowed = Math.max(this.allowed, total);
    for (; this.running < MAX_CONCURRENT && this.running < this.allowed - this.startedCount; this.running += 1)
      void this.work();
  }

  private async work(): Promise<void> {
    while (this.startedCount < this.allowed) {
      this.startedCount += 1;
      if (!(await this.sendOne())) this.startedCount -= 1;
    }
    this.running -= 1;
  }

  /** Sends the next value. A rejected value is never sent again. Returns whether the gateway accepted it. */
  private async sendOne(): Promise<boolean> {
    const value = this.next;
    this.next += 1;
    const clientDeviceId = this.orders.meters[value % this.orders.meters.length] ?? '';
    try {
      await this.gateway.send({ clientDeviceId, payload: { kind: 'json', value: { position: value } } });
    } catch (error) {
      if (!(error instanceof GatewayError && EXPECTED_ERRORS.has(error.reason)))
        this.world.note({ kind: 'fault', text: `an uplink was refused: ${String(error)}` });
      await wait(RETRY_INTERVAL_MS);
      return false;
    }
    this.sent += 1;
    this.world.note({ kind: 'sent', clientDeviceId, value });
    return true;
  }
}
