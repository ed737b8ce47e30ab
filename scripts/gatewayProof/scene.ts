import { createServer } from 'node:net';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { join } from 'node:path';
import type { ConnectionPolicy } from '../../src/gen/connection/connection_service';
import { makePlant, type Plant } from '../crash/plant';
import { type Running, Site } from '../crash/site';
import type { Trap } from '../crash/trapLogger';
import type { Random } from '../soak/random';
import { Callers } from './callers';
import type { GatewayOrders } from './gatewayOrders';
import { GatewayProcess } from './gatewayProcess';
import { makeMeters, type MeterDevice } from './meterDevices';

const METERS = 10;
const LONGEST_ATTACH_MS = 3000;
/** A gateway may hear of its attachment before this process hears of the end of the server. */
const DYING_MS = 100;
// Below the ports that the kernel gives to outgoing connections: one of those could take the place of a server that is away.
const PORTS = { first: 20_000, count: 10_000 };

/** What a row of the proof needs of its site. */
export interface SceneOptions {
  readonly policy: Partial<ConnectionPolicy>;
  readonly gateway: Pick<GatewayOrders, 'deliveriesAtOnce' | 'deviceMs'>;
  /** The server is never away. */
  readonly serverStays: boolean;
  /** Where the gateway keeps its store; in the folder of the site unless said. */
  readonly storeFolder?: string;
}

/** A server and a gateway, each in a process of its own, and callers. */
export class Scene {
  serverKills = 0;

  private constructor(
    readonly site: Site,
    /** The server that is there now. */
    public running: Running,
    readonly plant: Plant,
    readonly meters: readonly MeterDevice[],
    readonly gateway: GatewayProcess,
    readonly callers: Callers,
    readonly world: string,
    readonly options: SceneOptions,
  ) {}

  /** Starts the server and makes what is worked on; the gateway has not been started. */
  static async prepare(random: Random, options: SceneOptions): Promise<Scene> {
    const address = `127.0.0.1:${await freePort(random)}`;
    const site = new Site('', address);
    const running = await site.startSafely();
    const plant = await makePlant(running.clients, options.policy);
    const meters = await makeMeters(running.clients, plant.connectionId, METERS);
    const world = join(site.folder, 'world.jsonl');
    const server = { address, ...running.key };
    const store = join(options.storeFolder ?? site.folder, 'gateway.db');
    const names = meters.map(({ clientDeviceId }) => clientDeviceId);
    const gateway = new GatewayProcess({ ...server, ...options.gateway, connectionId: plant.connectionId, store, world, meters: names, seed: Math.floor(random.next() * 1e9) });
    return new Scene(site, running, plant, meters, gateway, new Callers(plant.actuators, options.serverStays, server), world, options);
  }

  /** kill -9 of the server, unless it killed itself already. */
  async killServer(): Promise<void> {
    await this.running.victim.kill();
    this.running.clients.close();
    this.serverKills += 1;
  }

  async startServer(): Promise<void> {
    this.running = await this.site.startSafely();
  }

  /** Whether the server ended by itself within this time. */
  async serverDies(withinMs: number): Promise<boolean> {
    return await Promise.race([this.running.victim.ended.then(() => true), wait(withinMs, false, { ref: false })]);
  }

  /** Starts it with a trap, and once more where that killed it before the gateway was attached to it; resolves to whether it did. */
  async startToDie(trap: Trap): Promise<boolean> {
    const { attached } = this.gateway;
    const first = await this.site.start(trap);
    if (first) {
      this.running = first;
      const isAttached = this.gateway.attaches(attached, LONGEST_ATTACH_MS).then(async () => await wait(DYING_MS, false, { ref: false }));
      if (!(await Promise.race([first.victim.ended.then(() => true), isAttached]))) return false;
      first.clients.close();
    }
    this.serverKills += 1;
    await this.startServer();
    return true;
  }

  /** Ends everything. */
  async end(): Promise<void> {
    this.callers.close();
    await this.running.victim.kill();
    this.running.clients.close();
  }
}

async function freePort(random: Random): Promise<number> {
  for (;;) {
    const port = PORTS.first + Math.floor(random.next() * PORTS.count);
    const probe = createServer().listen(port, '127.0.0.1');
    const isFree = await Promise.race([once(probe, 'listening').then(() => true), once(probe, 'error').then(() => false)]);
    if (!isFree) continue;
    probe.close();
    await once(probe, 'close');
    return port;
  }
}
