import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { FieldGateway } from './fieldGateway';
import type { KillPoint } from './killPoints';
import { makePlant } from './plant';
import type { Running, Site } from './site';
import { Submitters } from './submitters';
import type { Trap } from './trapLogger';
import { Watcher } from './watcher';
import { World } from './world';

const LONGEST_ROUND_MS = 12_000;
const LONGEST_RECOVERY_MS = 3000;
const LATEST_MOMENT_MS = 1200;
const LONGEST_AWAY_MS = 2500;
/** What fell due while no server was there is judged that much later. */
const GRACE_MS = 61_000;

/** A site under work whose server is killed at one point, again and again. */
export class Proof {
  /** How often the server was killed at the point. */
  kills = 0;
  /** How often it never came there: such a round proves nothing. */
  missed = 0;

  private constructor(
    readonly point: KillPoint,
    readonly site: Site,
    readonly gateway: FieldGateway,
    readonly submitters: Submitters,
    /** The server that is there now, with nobody attached. */
    public running: Running,
    readonly world: World,
    readonly watcher: Watcher | undefined,
  ) {}

  /** Makes what is to be worked on. */
  static async prepare(point: KillPoint, site: Site): Promise<Proof> {
    const running = await site.startSafely();
    const { timeout } = point.conditions;
    const { connectionId, actuators } = await makePlant(running.clients, { queueLimit: 1000, deliveryTimeout: timeout, ackTimeout: timeout });
    const world = new World();
    const watcher = point.conditions.watched === true ? new Watcher() : undefined;
    await watcher?.follow(running.clients);
    return new Proof(point, site, new FieldGateway(connectionId, point.conditions, world), new Submitters(actuators, point.conditions.cancels === true), running, world, watcher);
  }

  /** Work, a kill at the point, and a server that starts again. */
  async round(): Promise<void> {
    const { kill } = this.point;
    if (kill.by === 'line') this.running.victim.arm(kill.trap(this.point.conditions.most));
    await this.workUntilKilled();
    const again = kill.by === 'line' ? kill.atStart?.(1) : undefined;
    if (again) await this.killWhileItRecovers(again);
    this.running = await this.site.startSafely();
    await this.watcher?.follow(this.running.clients);
  }

  private async workUntilKilled(): Promise<void> {
    const { victim, clients } = this.running;
    const over = new AbortController();
    const working = Promise.all([this.submitters.run(clients, this.point.conditions.pauseMs), this.attach(over.signal), this.trouble(over.signal), this.killFromOutside(over.signal)]);
    const isKilled = await Promise.race([victim.ended.then(() => true), wait(LONGEST_ROUND_MS, false, { ref: false })]);
    if (isKilled) this.kills += 1;
    else this.missed += 1;
    await victim.kill();
    over.abort();
    await working;
    await this.clear();
  }

  /** What recovers is killed before it has recovered, if it comes there. */
  private async killWhileItRecovers(trap: Trap): Promise<void> {
    const running = await this.site.start(trap);
    if (!running) return void (this.kills += 1);
    this.running = running;
    this.gateway.follow(running.clients);
    const isKilled = await Promise.race([running.victim.ended.then(() => true), wait(LONGEST_RECOVERY_MS, false, { ref: false })]);
    if (isKilled) this.kills += 1;
    await running.victim.kill();
    await this.clear();
  }

  private async clear(): Promise<void> {
    await this.gateway.leave();
    this.running.clients.close();
    if (this.point.conditions.store === 'volatile' && randomInt(2) === 0) await this.gateway.reboot();
  }

  /** A gateway may come late. */
  private async attach(signal: AbortSignal): Promise<void> {
    if (this.point.conditions.hasty && randomInt(2) === 0) await pause(randomInt(LONGEST_AWAY_MS), signal);
    if (!signal.aborted) this.gateway.follow(this.running.clients);
  }

  /** Time passes, a gateway starts again. */
  private async trouble(signal: AbortSignal): Promise<void> {
    const { hasty, store } = this.point.conditions;
    if (!hasty) return;
    await pause(randomInt(LATEST_MOMENT_MS), signal);
    if (!signal.aborted && randomInt(3) === 0) this.site.skip(this.running, GRACE_MS);
    await pause(randomInt(LATEST_MOMENT_MS), signal);
    if (!signal.aborted && store === 'volatile') await this.gateway.reboot();
  }

  private async killFromOutside(signal: AbortSignal): Promise<void> {
    const { kill, conditions } = this.point;
    const { victim } = this.running;
    if (kill.by === 'time') {
      await pause(randomInt(LATEST_MOMENT_MS), signal);
      await victim.kill();
    }
    if (kill.by === 'gateway') {
      let rest = 1 + randomInt(conditions.most);
      this.gateway.onCommand = () => {
        rest -= 1;
        if (rest === 0) void victim.kill();
      };
    }
  }
}

/** Waits, unless it is over before. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await wait(ms, undefined, { signal }).catch(() => {});
}
