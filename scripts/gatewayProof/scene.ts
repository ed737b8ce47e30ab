import { createServer } from 'node:net';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { join } from 'node:path';
import type { ConnectionPolicy } from '../../src/gen/connection/connection_service';
import { createPlant, type Plant } from '../crash/plant';
import { type Running, Site } from '../crash/site';
import type { Trap } from '../crash/trapLogger';
import type { Random } from '../soak/random';
import { Callers } from './callers';
import type { GatewayOrders } from './gatewayOrders';
import { GatewayProcess, MAX_ATTACH_MS } from './gatewayProcess';
import { createMeters, type MeterDevice } from './meterDevices';

const METERS = 10;
/** The attachment may be reported before this process notices that the server has exited. */
const EXIT_DELAY_MS = 100;
// Below the port range of outgoing connections: one of those could take the port while the server is down.
const PORTS = { first: 20_000, count: 10_000 };

/** The options of a row for its site. */
export interface SceneOptions {
  readonly policy: Partial<ConnectionPolicy>;
  readonly gateway: Pick<GatewayOrders, 'maxConcurrentDeliveries' | 'deviceMs'>;
  /** Whether the server runs all the time. */
  readonly serverStays: boolean;
  /** The folder of the gateway's store; default: the folder of the site. */
  readonly storeFolder?: string;
}

/** A server and a gateway in separate processes, and callers. */
export class Scene {
  serverKills = 0;

  private constructor(
    readonly site: Site,
    /** The current server. */
    public running: Running,
    readonly plant: Plant,
    readonly meters: readonly MeterDevice[],
    readonly gateway: GatewayProcess,
    readonly callers: Callers,
    readonly world: string,
    readonly options: SceneOptions,
  ) {}

  /** Starts the server and creates the devices. Does not start the gateway. */
  static async prepare(random: Random, options: SceneOptions): Promise<Scene> {
    const address = `127.0.0.1:${await findFreePort(random)}`;
    const site = new Site('', address);
    const running = await site.startWithoutTrap();
    const plant = await createPlant(running.clients, options.policy);
    const meters = await createMeters(running.clients, plant.connectionId, METERS);
    const world = join(site.folder, 'world.jsonl');
    const server = { address, ...running.key };
    const store = join(options.storeFolder ?? site.folder, 'gateway.db');
    const names = meters.map(({ clientDeviceId }) => clientDeviceId);
    const gateway = new GatewayProcess({
      ...server,
      ...options.gateway,
      connectionId: plant.connectionId,
      store,
      world,
      meters: names,
      seed: Math.floor(random.next() * 1e9),
    });
    return new Scene(
      site,
      running,
      plant,
      meters,
      gateway,
      new Callers(plant.actuators, options.serverStays, server),
      world,
      options,
    );
  }

  /** Kills the server with SIGKILL, unless it has already killed itself. */
  async killServer(): Promise<void> {
    await this.running.victim.kill();
    this.running.clients.close();
    this.serverKills += 1;
  }

  async startServer(): Promise<void> {
    this.running = await this.site.startWithoutTrap();
  }

  /** Resolves to true when the server has exited, to false after `withinMs`. */
  async waitForServerExit(withinMs: number): Promise<boolean> {
    return await Promise.race([this.running.victim.ended.then(() => true), wait(withinMs, false, { ref: false })]);
  }

  /**
   * Starts the server with a trap. If the trap kills it before the gateway is attached, starts it again and resolves to
   * true.
   */
  async startWithTrap(trap: Trap): Promise<boolean> {
    const { attached } = this.gateway;
    const first = await this.site.start(trap);
    if (first) {
      this.running = first;
      const isAttached = this.gateway
        .waitUntilAttached(attached, MAX_ATTACH_MS)
        .then(async () => await wait(EXIT_DELAY_MS, false, { ref: false }));
      if (!(await Promise.race([first.victim.ended.then(() => true), isAttached]))) return false;
      first.clients.close();
    }
    this.serverKills += 1;
    await this.startServer();
    return true;
  }

  /** Closes the callers and kills the server. */
  async close(): Promise<void> {
    this.callers.close();
    await this.running.victim.kill();
    this.running.clients.close();
  }
}

async function findFreePort(random: Random): Promise<number> {
  for (;;) {
    const port = PORTS.first + Math.floor(random.next() * PORTS.count);
    const probe = createServer().listen(port, '127.0.0.1');
    const isFree = await Promise.race([
      once(probe, 'listening').then(() => true),
      once(probe, 'error').then(() => false),
    ]);
    if (!isFree) continue;
    probe.close();
    await once(probe, 'close');
    return port;
  }
}
