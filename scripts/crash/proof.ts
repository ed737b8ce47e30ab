import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { FieldGateway } from './fieldGateway';
import type { KillPoint } from './killPoints';
import { createPlant } from './plant';
import type { Running, Site } from './site';
import { Submitters } from './submitters';
import type { Trap } from './trapLogger';
import { Watcher } from './watcher';
import { World } from './world';

const MAX_ROUND_MS = 12_000;
const MAX_RECOVERY_MS = 3000;
const MAX_KILL_DELAY_MS = 1200;
const MAX_OFFLINE_MS = 2500;
/** After a restart, the server evaluates expired deadlines only after so much time. */
const GRACE_MS = 61_000;

/** A site under load whose server is repeatedly killed at one point. */
export class Proof {
  /** How often the server was killed at the point. */
  kills = 0;
  /** How many rounds did not reach the point; they prove nothing. */
  missed = 0;

  private constructor(
    readonly point: KillPoint,
    readonly site: Site,
    readonly gateway: FieldGateway,
    readonly submitters: Submitters,
    /** The current server, without an attached gateway. */
    public running: Running,
    readonly world: World,
    readonly watcher: Watcher | undefined,
  ) {}

  /** Starts a server and creates its devices. */
  static async prepare(point: KillPoint, site: Site): Promise<Proof> {
    const running = await site.startWithoutTrap();
    const { timeout } = point.conditions;
    const { connectionId, actuators } = await createPlant(running.clients, {
      queueLimit: 1000,
      deliveryTimeout: timeout,
      ackTimeout: timeout,
    });
    const world = new World(point.conditions);
    const watcher = point.conditions.watched === true ? new Watcher() : undefined;
    await watcher?.follow(running.clients);
    return new Proof(
      point,
      site,
      new FieldGateway(connectionId, point.conditions, world),
      new Submitters(actuators, point.conditions),
      running,
      world,
      watcher,
    );
  }

  /** Kills the idle server, and starts another one without an attached gateway. */
  async restart(): Promise<void> {
    await this.running.victim.kill();
    await this.disconnect();
    this.running = await this.site.startWithoutTrap();
  }

  /** Runs the load, kills the server at the point, and restarts it. */
  async runRound(): Promise<void> {
    const { kill } = this.point;
    if (kill.by === 'line') this.running.victim.arm(kill.trap(this.point.conditions.max));
    await this.workUntilKilled();
    const trapAtStart = kill.by === 'line' ? kill.atStart?.(1) : undefined;
    if (trapAtStart) await this.killDuringRecovery(trapAtStart);
    this.running = await this.site.startWithoutTrap();
    await this.watcher?.follow(this.running.clients);
  }

  private async workUntilKilled(): Promise<void> {
    const { victim, clients } = this.running;
    const over = new AbortController();
    const working = Promise.all([
      this.submitters.run(clients, this.point.conditions.pauseMs),
      this.attach(over.signal),
      this.disturb(over.signal),
      this.killFromOutside(over.signal),
    ]);
    const isKilled = await Promise.race([victim.ended.then(() => true), wait(MAX_ROUND_MS, false, { ref: false })]);
    if (isKilled) this.kills += 1;
    else this.missed += 1;
    await victim.kill();
    over.abort();
    await working;
    await this.disconnect();
  }

  /** Starts a server that kills itself during its recovery, if it reaches the trap. */
  private async killDuringRecovery(trap: Trap): Promise<void> {
    const running = await this.site.start(trap);
    if (!running) return void (this.kills += 1);
    this.running = running;
    this.gateway.attachTo(running.clients);
    const isKilled = await Promise.race([
      running.victim.ended.then(() => true),
      wait(MAX_RECOVERY_MS, false, { ref: false }),
    ]);
    if (isKilled) this.kills += 1;
    await running.victim.kill();
    await this.disconnect();
  }

  private async disconnect(): Promise<void> {
    await this.gateway.detach();
    this.running.clients.close();
    if (this.point.conditions.store === 'volatile' && randomInt(2) === 0) await this.gateway.reboot();
  }

  /** Attaches the gateway, sometimes late. */
  private async attach(signal: AbortSignal): Promise<void> {
    if (this.point.conditions.hasTimeouts && randomInt(2) === 0) await pause(randomInt(MAX_OFFLINE_MS), signal);
    if (!signal.aborted) this.gateway.attachTo(this.running.clients);
  }

  /** Moves the clock forward and restarts the gateway, at random. */
  private async disturb(signal: AbortSignal): Promise<void> {
    const { hasTimeouts, store } = this.point.conditions;
    if (!hasTimeouts) return;
    await pause(randomInt(MAX_KILL_DELAY_MS), signal);
    if (!signal.aborted && randomInt(3) === 0) this.site.advanceClock(this.running, GRACE_MS);
    await pause(randomInt(MAX_KILL_DELAY_MS), signal);
    if (!signal.aborted && store === 'volatile') await this.gateway.reboot();
  }

  private async killFromOutside(signal: AbortSignal): Promise<void> {
    const { kill, conditions } = this.point;
    const { victim } = this.running;
    if (kill.by === 'time') {
      await pause(randomInt(MAX_KILL_DELAY_MS), signal);
      await victim.kill();
    }
    if (kill.by === 'gateway') {
      let remaining = 1 + randomInt(conditions.max);
      this.gateway.onCommand = () => {
        remaining -= 1;
        if (remaining === 0) void victim.kill();
      };
    }
  }
}

/** Waits until the time has passed or the signal aborts. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await wait(ms, undefined, { signal }).catch(() => {});
}
