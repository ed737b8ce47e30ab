import { type DeliveredCommand, type Delivery, type DeliveryResult, type Gateway, type GatewayEvent, type GatewayOptions, type GatewayStore, type KeptCommand, memoryStore, startGateway, type StoreChange, GatewayError } from '../../../src/client/gateway/index';
import { FakePlantroom, type FakeStream } from '../../support/fakePlantroom';

/** A server that does what a test tells it, and the gateways that a test starts against it. */
export class GatewayRoom {
  readonly server = new FakePlantroom();
  readonly events: GatewayEvent[] = [];
  private readonly gateways: Gateway[] = [];
  private readonly waiting: (() => void)[] = [];

  async open(): Promise<void> {
    await this.server.start();
  }

  /** Starts one; `deliver` accepts at once unless said. */
  start(options: Partial<GatewayOptions> = {}): Gateway {
    const gateway = startGateway({
      address: this.server.address,
      apiKey: 'plr_key',
      organizationId: 'org-1',
      insecure: true,
      connectionId: 'connection-1',
      store: memoryStore(),
      deliver: () => ({ result: 'accepted' }),
      backoffMs: () => 1,
      ...options,
      onEvent: (event) => {
        this.events.push(event);
        for (const wake of this.waiting.splice(0)) wake();
        options.onEvent?.(event);
      },
    });
    this.gateways.push(gateway);
    return gateway;
  }

  /** Welcomes the gateway on its n-th stream, from 0; resolves when it has heard that. */
  async attached(n = 0): Promise<FakeStream> {
    const stream = await this.server.stream(n);
    stream.welcome();
    await this.event('attached', n);
    return stream;
  }

  /** The n-th event of this kind, from 0. */
  async event<Name extends GatewayEvent['event']>(name: Name, n = 0): Promise<Extract<GatewayEvent, { event: Name }>> {
    for (;;) {
      const found = this.events.filter(({ event }) => event === name)[n];
      if (found) return found as Extract<GatewayEvent, { event: Name }>;
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    }
  }

  names(): string[] {
    return this.events.map(({ event }) => event);
  }

  async close(): Promise<void> {
    await Promise.all(this.gateways.map(async (gateway) => await gateway.stop(0)));
    this.server.stop();
  }
}

/** Deliveries that a test answers one by one. */
export class HeldDeliveries {
  readonly calls: { readonly command: DeliveredCommand; readonly delivery: Delivery; readonly answer: (result: DeliveryResult) => void; readonly fail: (error: Error) => void }[] = [];
  private readonly waiting: (() => void)[] = [];

  readonly deliver = async (command: DeliveredCommand, delivery: Delivery): Promise<DeliveryResult> =>
    await new Promise((answer, fail) => {
      this.calls.push({ command, delivery, answer, fail });
      for (const wake of this.waiting.splice(0)) wake();
    });

  async call(n: number): Promise<(typeof this.calls)[number]> {
    for (;;) {
      const found = this.calls[n];
      if (found) return found;
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    }
  }
}

/** A store in memory that fails on changes that a test names, and counts as durable where that is asked for. */
export class ShakyStore implements GatewayStore {
  /** Everything that was kept, in its order. */
  readonly log: StoreChange[] = [];
  refuses: ((change: StoreChange) => boolean) | undefined;
  reason: 'store_full' | 'store_failed' | 'store_damaged' = 'store_full';
  /** Since then nothing is kept any more: what is there is what a kill leaves. */
  isKilled = false;
  /** How a command that was kept looks when the store is opened again. */
  aged: (command: KeptCommand) => KeptCommand = (command) => command;
  private readonly inner = memoryStore();

  constructor(readonly isDurable = true) {}

  readonly open: GatewayStore['open'] = (identity) => this.inner.open(identity);
  readonly openCommands: GatewayStore['openCommands'] = () => this.inner.openCommands().map(this.aged);
  readonly findCommand: GatewayStore['findCommand'] = (executionId) => this.inner.findCommand(executionId);
  readonly uplinksAfter: GatewayStore['uplinksAfter'] = (position, most) => this.inner.uplinksAfter(position, most);
  readonly close = (): void => this.inner.close();

  get uplinkCount(): number {
    return this.inner.uplinkCount;
  }

  get uplinkBytes(): number {
    return this.inner.uplinkBytes;
  }

  apply(changes: readonly StoreChange[]): void {
    if (this.isKilled) return;
    if (changes.some((change) => this.refuses?.(change))) throw new GatewayError(this.reason, 'the disk is full');
    this.inner.apply(changes);
    this.log.push(...changes);
  }
}
