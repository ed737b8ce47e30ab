import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import {
  type DeliveredCommand,
  type DeliveryResult,
  type Gateway,
  type GatewayEvent,
  GatewayError,
  sqliteStore,
  startGateway,
} from '../../src/client/gateway';
import { Random } from '../soak/random';
import { ChildTraps } from './childTraps';
import { installClock } from './clockJump';
import type { FromGateway, GatewayOrders, ToGateway } from './gatewayOrders';
import { Meters } from './meters';
import { createWatchedStore } from './watchedStore';
import { uptimeMs, WorldFile } from './worldFile';

/** The interval between two attempts to attach, in milliseconds; the servers of this program restart quickly. */
const REATTACH_MS = 60;

/**
 * A gateway that uses the gateway library. It carries out every command as often as it is delivered, after recording it
 * in the world file, and exits with its parent.
 */
export class GatewayChild {
  private readonly traps = new ChildTraps();
  private readonly world: WorldFile;
  private readonly random: Random;
  private readonly gateway: Gateway;
  private readonly meters: Meters;
  private readonly positions = new Map<string, number>();
  private readonly store: ReturnType<typeof sqliteStore>;
  private readonly setClock: (aheadMs: number) => void;
  private storeFailures = 0;

  constructor(private readonly orders: GatewayOrders) {
    this.setClock = installClock(orders.aheadMs);
    this.world = new WorldFile(orders.world);
    this.random = new Random(orders.seed + orders.start);
    const recordedLines = this.world.read();
    for (const line of recordedLines)
      if (line.kind === 'delivered') this.storePosition(line.clientDeviceId, line.payload);
    this.store = createWatchedStore(
      sqliteStore({ file: orders.store, nativeBinding: join(__dirname, 'assets', 'better_sqlite3.node') }),
      this.world,
      this.traps,
    );
    const { address, apiKey, organizationId, connectionId, maxConcurrentDeliveries } = orders;
    this.gateway = startGateway({
      address,
      apiKey,
      organizationId,
      connectionId,
      maxConcurrentDeliveries,
      insecure: true,
      software: 'gateway-proof/1',
      store: this.store,
      deliver: async (command) => await this.deliver(command),
      onEvent: (event) => this.handleEvent(event),
      backoffMs: () => REATTACH_MS,
    });
    this.gateway.ended.catch((error: unknown) => this.recordFault(`the gateway stopped: ${String(error)}`));
    this.meters = new Meters(
      this.gateway,
      this.world,
      orders,
      recordedLines.filter(({ kind }) => kind === 'sent').length,
    );
  }

  /** Carries out an order of the parent. */
  handleOrder(order: ToGateway): void {
    switch (order.kind) {
      case 'trap':
        return this.traps.arm(order.trap);
      case 'quota':
        return this.meters.allow(order.uplinks);
      case 'show':
        return this.showPositions();
      case 'clock':
        return this.setClock(order.aheadMs);
      case 'report':
        return sendToParent({
          kind: 'report',
          sent: this.meters.sent,
          openUplinks: this.store.uplinkCount,
          openCommands: this.store.openCommands().length,
          storeFailures: this.storeFailures,
        });
      case 'stop':
        void this.stop();
    }
  }

  private async deliver({ executionId, clientDeviceId, payload }: DeliveredCommand): Promise<DeliveryResult> {
    this.traps.pass('deliver_called');
    const command: unknown =
      payload.kind === 'bytes' ? JSON.parse(Buffer.from(payload.bytes).toString()) : payload.value;
    this.world.note({ kind: 'delivered', executionId, clientDeviceId, payload: command, at: uptimeMs() });
    this.traps.pass('delivered');
    const [min, max] = this.orders.deviceMs;
    await wait(min + this.random.next() * (max - min));
    this.storePosition(clientDeviceId, command);
    setImmediate(() => this.sendPosition(clientDeviceId));
    return { result: 'accepted' };
  }

  private storePosition(clientDeviceId: string, payload: unknown): void {
    const { n } = payload as { readonly n?: number };
    if (n !== undefined) this.positions.set(clientDeviceId, n);
  }

  private sendPosition(clientDeviceId: string): void {
    const uplink = {
      clientDeviceId,
      payload: { kind: 'json', value: { position: this.positions.get(clientDeviceId) ?? 0 } },
    } as const;
    this.gateway.send(uplink).catch((error: unknown) => this.handleSendError(error));
  }

  private showPositions(): void {
    for (const clientDeviceId of this.positions.keys()) this.sendPosition(clientDeviceId);
  }

  private handleEvent(event: GatewayEvent): void {
    this.traps.pass(event.event);
    if (event.event === 'attached' || event.event === 'detached') sendToParent({ kind: event.event });
    if (event.event === 'store_failing') this.storeFailures += 1;
    if (event.event === 'refused') this.recordFault(`the server refused the gateway: ${event.error.message}`);
    if (event.event === 'uplink_acknowledged' && event.outcome === 'rejected')
      this.recordFault(`uplink ${event.uplinkId} was rejected: ${event.reason}`);
  }

  /** Records a send error as a fault, unless the store was full or stopped. */
  private handleSendError(error: unknown): void {
    if (!(error instanceof GatewayError && EXPECTED_STORE_ERRORS.has(error.reason)))
      this.recordFault(`an uplink was refused: ${String(error)}`);
  }

  private async stop(): Promise<void> {
    await this.gateway.stop();
    process.exit(0);
  }

  private recordFault(text: string): void {
    this.world.note({ kind: 'fault', text });
  }
}

const EXPECTED_STORE_ERRORS: ReadonlySet<string> = new Set(['store_full', 'store_failed', 'stopped']);

/** Runs a gateway that follows the orders of its parent. */
export function serveGateway(orders: GatewayOrders): void {
  const child = new GatewayChild(orders);
  process.on('message', (order: ToGateway) => child.handleOrder(order));
  process.on('disconnect', () => process.exit(0));
}

function sendToParent(message: FromGateway): void {
  process.send?.(message);
}
