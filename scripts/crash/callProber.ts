import { setTimeout as wait } from 'node:timers/promises';
import { WhoAmIRequest } from '../../src/gen/organization_access_control/access_control_service';
import { callUnary, type Clients, isServerGone } from './clients';

const INTERVAL_MS = 20;

/** Calls WhoAmI every 20 ms and measures the slowest response. */
export class CallProber {
  /** The longest response time so far, in milliseconds. */
  slowestMs = 0;
  private isOver = false;
  private readonly calls = new Set<Promise<void>>();

  constructor(private readonly clients: Clients) {}

  /** Calls until `stop` is called. */
  async run(): Promise<void> {
    while (!this.isOver) {
      const call = this.call().finally(() => this.calls.delete(call));
      this.calls.add(call);
      await wait(INTERVAL_MS);
    }
    await Promise.all(this.calls);
  }

  /** Stops calling; `run` resolves when every call has its response. */
  stop(): void {
    this.isOver = true;
  }

  private async call(): Promise<void> {
    const started = performance.now();
    try {
      await callWhoAmI(this.clients);
    } catch (error) {
      if (!isServerGone(error)) throw error;
    }
    this.slowestMs = Math.max(this.slowestMs, performance.now() - started);
  }
}

/** Calls WhoAmI, which every valid key may call. */
export async function callWhoAmI({ access, metadata }: Clients): Promise<void> {
  await callUnary((callback) => access.whoAmI(WhoAmIRequest.fromPartial({}), metadata, callback));
}
