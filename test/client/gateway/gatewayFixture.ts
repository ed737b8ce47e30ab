import {
  type DeliveredCommand,
  type Delivery,
  type DeliveryResult,
  type Gateway,
  type GatewayEvent,
  type GatewayOptions,
  type GatewayStore,
  type StoredCommand,
  memoryStore,
  startGateway,
  type StoreChange,
  GatewayError,
} from '../../../src/client/gateway/index';
import { FakePlantroom, type FakeStream } from '../../support/fakePlantroom';

/** A server that a test controls, and the gateways that the test starts against it. */
export class GatewayFixture {
  readonly server = new FakePlantroom();
  readonly events: GatewayEvent[] = [];
  private readonly gateways: Gateway[] = [];
  private readonly waiting: (() => void)[] = [];

  async open(): Promise<void> {
    await this.server.start();
  }

  /** Starts a gateway. By default, `deliver` accepts immediately. */
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

  /** Welcomes the gateway on its n-th stream (from 0). Resolves when the gateway has received the welcome. */
  async attached(n = 0): Promise<FakeStream> {
    const stream = await this.server.stream(n);
    stream.welcome();
    await this.event('attached', n);
    return stream;
  }

  /** Resolves with the n-th event of this kind (from 0). */
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
  readonly calls: {
    readonly command: DeliveredCommand;
    readonly delivery: Delivery;
    readonly answer: (result: DeliveryResult) => void;
    readonly fail: (error: Error) => void;
  }[] = [];
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

/** A store in memory that fails on changes selected by a test, and can be declared durable. */
export class ShakyStore implements GatewayStore {
  /** All stored changes, in order. */
  readonly log: StoreChange[] = [];
  shouldReject: ((change: StoreChange) => boolean) | undefined;
  reason: 'store_full' | 'store_failed' | 'store_corrupt' = 'store_full';
  /** Nothing is stored after this is set, so the store contains what a kill leaves. */
  isKilled = false;
  /** Transforms a stored command when the store is opened again. */
  transformCommand: (command: StoredCommand) => StoredCommand = (command) => command;
  private readonly inner = memoryStore();

  constructor(readonly isDurable = true) {}

  readonly open: GatewayStore['open'] = (identity) => this.inner.open(identity);
  readonly openCommands: GatewayStore['openCommands'] = () => this.inner.openCommands().map(this.transformCommand);
  readonly findCommand: GatewayStore['findCommand'] = (executionId) => this.inner.findCommand(executionId);
  readonly uplinksAfter: GatewayStore['uplinksAfter'] = (position, max) => this.inner.uplinksAfter(position, max);
  readonly close = (): void => this.inner.close();

  get uplinkCount(): number {
    return this.inner.uplinkCount;
  }

  get uplinkBytes(): number {
    return this.inner.uplinkBytes;
  }

  apply(changes: readonly StoreChange[]): void {
    if (this.isKilled) return;
    if (changes.some((change) => this.shouldReject?.(change))) throw new GatewayError(this.reason, 'the disk is full');
    this.inner.apply(changes);
    this.log.push(...changes);
  }
}
