import { setTimeout as wait } from 'node:timers/promises';
import { type Gateway, GatewayError } from '../../src/client/gateway';
import type { GatewayOrders } from './gatewayOrders';
import type { WorldFile } from './worldFile';

const AT_ONCE = 16;
const STARTS_APART = 1_000_000;
const AGAIN_MS = 20;
const TROUBLE: ReadonlySet<string> = new Set(['store_full', 'store_failed', 'uplinks_full']);

/** The devices that send uplinks by themselves, as many as they are allowed to. No value comes twice, whatever process sends it. */
export class Meters {
  /** How many are kept, those of earlier processes included. */
  sent: number;
  private allowed = 0;
  private begun: number;
  private next: number;
  private running = 0;

  constructor(
    private readonly gateway: Pick<Gateway, 'send'>,
    private readonly world: WorldFile,
    private readonly orders: Pick<GatewayOrders, 'start' | 'meters'>,
    sent: number,
  ) {
    this.sent = sent;
    this.begun = sent;
    this.next = orders.start * STARTS_APART;
  }

  /** So many are to be kept in all. */
  allow(total: number): void {
    this.allowed = Math.max(this.allowed, total);
    for (; this.running < AT_ONCE && this.running < this.allowed - this.begun; this.running += 1) void this.work();
  }

  private async work(): Promise<void> {
    while (this.begun < this.allowed) {
      this.begun += 1;
      if (!(await this.sendOne())) this.begun -= 1;
    }
    this.running -= 1;
  }

  /** Sends a value of its own; one that was refused is never sent again. */
  private async sendOne(): Promise<boolean> {
    const value = this.next;
    this.next += 1;
    const clientDeviceId = this.orders.meters[value % this.orders.meters.length] ?? '';
    try {
      await this.gateway.send({ clientDeviceId, payload: { kind: 'json', value: { position: value } } });
    } catch (error) {
      if (!(error instanceof GatewayError && TROUBLE.has(error.reason))) this.world.note({ kind: 'fault', text: `an uplink was refused: ${String(error)}` });
      await wait(AGAIN_MS);
      return false;
    }
    this.sent += 1;
    this.world.note({ kind: 'sent', clientDeviceId, value });
    return true;
  }
}
