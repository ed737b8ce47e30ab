import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { type DeliveredCommand, type DeliveryResult, type Gateway, type GatewayEvent, GatewayError, sqliteStore, startGateway } from '../../src/client/gateway';
import { Random } from '../soak/random';
import { ChildTraps } from './childTraps';
import { installClock } from './clockJump';
import type { FromGateway, GatewayOrders, ToGateway } from './gatewayOrders';
import { Meters } from './meters';
import { watchedStore } from './watchedStore';
import { uptimeMs, WorldFile } from './worldFile';

/** Between two attempts to attach, in milliseconds: the servers of this program are back soon. */
const REATTACH_MS = 60;

/** A gateway in the program's own words: it does whatever it is told, as often as it is told, and notes it in the world first. Ends with its parent. */
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
    const past = this.world.read();
    for (const line of past) if (line.kind === 'delivered') this.remember(line.clientDeviceId, line.payload);
    this.store = watchedStore(sqliteStore({ file: orders.store, nativeBinding: join(__dirname, 'assets', 'better_sqlite3.node') }), this.world, this.traps);
    const { address, apiKey, organizationId, connectionId, deliveriesAtOnce } = orders;
    this.gateway = startGateway({
      address, apiKey, organizationId, connectionId, deliveriesAtOnce,
      insecure: true,
      software: 'gateway-proof/1',
      store: this.store,
      deliver: async (command) => await this.deliver(command),
      onEvent: (event) => this.take(event),
      backoffMs: () => REATTACH_MS,
    });
    this.gateway.ended.catch((error: unknown) => this.fault(`the gateway ended: ${String(error)}`));
    this.meters = new Meters(this.gateway, this.world, orders, past.filter(({ kind }) => kind === 'sent').length);
  }

  /** What the parent wants. */
  obey(order: ToGateway): void {
    switch (order.kind) {
      case 'trap':
        return this.traps.arm(order.trap);
      case 'quota':
        return this.meters.allow(order.uplinks);
      case 'show':
        return this.showAll();
      case 'clock':
        return this.setClock(order.aheadMs);
      case 'report':
        return tell({ kind: 'report', sent: this.meters.sent, openUplinks: this.store.uplinkCount, openCommands: this.store.openCommands().length, storeFailures: this.storeFailures });
      case 'stop':
        void this.stop();
    }
  }

  private async deliver({ executionId, clientDeviceId, payload }: DeliveredCommand): Promise<DeliveryResult> {
    this.traps.pass('deliver_called');
    const told: unknown = payload.kind === 'bytes' ? JSON.parse(Buffer.from(payload.bytes).toString()) : payload.value;
    this.world.note({ kind: 'delivered', executionId, clientDeviceId, payload: told, at: uptimeMs() });
    this.traps.pass('delivered');
    const [least, most] = this.orders.deviceMs;
    await wait(least + this.random.next() * (most - least));
    this.remember(clientDeviceId, told);
    setImmediate(() => this.show(clientDeviceId));
    return { result: 'accepted' };
  }

  private remember(clientDeviceId: string, payload: unknown): void {
    const { n } = payload as { readonly n?: number };
    if (n !== undefined) this.positions.set(clientDeviceId, n);
  }

  private show(clientDeviceId: string): void {
    const uplink = { clientDeviceId, payload: { kind: 'json', value: { position: this.positions.get(clientDeviceId) ?? 0 } } } as const;
    this.gateway.send(uplink).catch((error: unknown) => this.refusedUplink(error));
  }

  private showAll(): void {
    for (const clientDeviceId of this.positions.keys()) this.show(clientDeviceId);
  }

  private take(event: GatewayEvent): void {
    this.traps.pass(event.event);
    if (event.event === 'attached' || event.event === 'detached') tell({ kind: event.event });
    if (event.event === 'store_failing') this.storeFailures += 1;
    if (event.event === 'refused') this.fault(`the server refused it: ${event.error.message}`);
    if (event.event === 'uplink_acknowledged' && event.outcome === 'rejected') this.fault(`uplink ${event.uplinkId} was rejected: ${event.reason}`);
  }

  /** A store that is full takes nothing in; anything else is a fault. */
  private refusedUplink(error: unknown): void {
    if (!(error instanceof GatewayError && STORE_TROUBLE.has(error.reason))) this.fault(`an uplink was refused: ${String(error)}`);
  }

  private async stop(): Promise<void> {
    await this.gateway.stop();
    process.exit(0);
  }

  private fault(text: string): void {
    this.world.note({ kind: 'fault', text });
  }
}

const STORE_TROUBLE: ReadonlySet<string> = new Set(['store_full', 'store_failed', 'stopped']);

/** Runs a gateway as its parent wants. */
export function serveGateway(orders: GatewayOrders): void {
  const child = new GatewayChild(orders);
  process.on('message', (order: ToGateway) => child.obey(order));
  process.on('disconnect', () => process.exit(0));
}

function tell(message: FromGateway): void {
  process.send?.(message);
}
