import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { findMosquitto, Mosquitto } from '../../test/support/mosquitto';
import { AedesProcess } from './aedesProcess';
import { audit, isFinal, isOpen, readAll } from './audit';
import type { BrokerPoint } from './brokerPoints';
import { countReadings } from './countReadings';
import { LoraNetwork } from './loraNetwork';
import { MqttFleet } from './mqttFleet';
import { type Plant, makePlant } from './plant';
import { plantKind } from './plantKinds';
import { errorLines } from './serverLog';
import { type Outcome, until } from './settle';
import type { Running, Site } from './site';
import { Submitters } from './submitters';
import { World } from './world';

const LONGEST_ROUND_MS = 8000;
const LATEST_MOMENT_MS = 1500;
const PAUSE_MS = 4;
/** The broker is killed amid so many commands for each device, and comes back amid them. */
const MOST_WHILE_AWAY = 20;
const BROKER_PAUSE_MS = 80;
const TIMEOUT_S = 86_400;
/** MQTT: what nobody can say any more holds its device so long. */
const AFTER_LOSS_S = 2;
/** Where the broker is killed. */
const AMID_TIMEOUT_S = 60;
const AFTERMATH_MS = 2000;
const GRACE_MS = 61_000;
const UPLINK_INTERVAL_S = 10;
const LOOK_EVERY_MS = 200;
const LONGEST_STANDSTILL_MS = 3000;
const DAY_MS = 86_400_000;

const MOST_LOOKS = 40;
const NOTHING_WRONG = { lost: [], doubled: [] };

type Broker = Mosquitto | AedesProcess;

/** A site whose devices are behind a broker; the server or the broker is killed again and again. */
export class BrokerProof {
  private kills = 0;
  private missed = 0;

  private constructor(
    private readonly point: BrokerPoint,
    private readonly site: Site,
    private readonly broker: Broker,
    private readonly world: World,
    private readonly field: MqttFleet | LoraNetwork,
    private readonly plant: Plant,
    private readonly submitters: Submitters,
    private running: Running,
  ) {}

  /** Kills so many times; what came of it. */
  static async prove(point: BrokerPoint, site: Site, rounds: number, mostMissed: number): Promise<Outcome> {
    const broker = await startBroker();
    try {
      const proof = await BrokerProof.prepare(point, site, broker);
      while (proof.kills < rounds && proof.missed < rounds + mostMissed) await proof.round();
      return await proof.settle();
    } finally {
      await broker.remove();
    }
  }

  private static async prepare(point: BrokerPoint, site: Site, broker: Broker): Promise<BrokerProof> {
    const running = await site.startSafely();
    const timeout = point.kill.by === 'broker' ? AMID_TIMEOUT_S : TIMEOUT_S;
    const kind = plantKind(point.transport, broker.url);
    const plant = await makePlant(running.clients, { queueLimit: 1000, deliveryTimeout: timeout, ackTimeout: point.transport === 'chirpstack' ? timeout : AFTER_LOSS_S, uplinkInterval: UPLINK_INTERVAL_S }, kind);
    const world = new World();
    const ids = plant.actuators.map(({ clientDeviceId }) => clientDeviceId);
    const field = point.transport === 'chirpstack' ? new LoraNetwork(broker.url, world, ids) : new MqttFleet(broker.url, world);
    await field.start();
    return new BrokerProof(point, site, broker, world, field, plant, new Submitters(plant.actuators, false), running);
  }

  private async round(): Promise<void> {
    const { kill } = this.point;
    if (kill.by === 'line') this.running.victim.arm(kill.trap());
    if (kill.by === 'broker') await this.killBroker();
    else await this.killServer(kill.by === 'time');
  }

  private async killServer(fromOutside: boolean): Promise<void> {
    const { victim, clients } = this.running;
    const working = this.submitters.run(clients, PAUSE_MS);
    if (fromOutside) void wait(randomInt(LATEST_MOMENT_MS)).then(async () => await victim.kill());
    const isKilled = await Promise.race([victim.ended.then(() => true), wait(LONGEST_ROUND_MS, false, { ref: false })]);
    if (isKilled) this.kills += 1;
    else this.missed += 1;
    await victim.kill();
    await working;
    clients.close();
    this.running = await this.site.startSafely();
  }

  /** The callers go on while it is away. */
  private async killBroker(): Promise<void> {
    const working = this.submitters.run(this.running.clients, BROKER_PAUSE_MS, MOST_WHILE_AWAY);
    await this.atWork();
    await wait(randomInt(LATEST_MOMENT_MS));
    await this.broker.kill();
    this.kills += 1;
    await this.field.stop();
    await wait(randomInt(LATEST_MOMENT_MS));
    await this.broker.restart();
    await this.field.start();
    await working;
    await wait(AFTERMATH_MS);
    // What nobody knows any more holds its device until its end.
    this.site.skip(this.running, 1000 * (AMID_TIMEOUT_S + UPLINK_INTERVAL_S) + GRACE_MS);
  }

  /** Resolves when devices are at work, or have not been for long. */
  private async atWork(): Promise<void> {
    const before = this.world.executions.size;
    for (let look = 0; this.world.executions.size < before + this.plant.actuators.length && look < MOST_LOOKS; look += 1) await wait(LOOK_EVERY_MS);
  }

  /** First what can still be done is done, then the clock passes every deadline. */
  private async settle(): Promise<Outcome> {
    const { submitters, site, running, world, point, field } = this;
    const { clients } = running;
    await submitters.finish(clients);
    const told = [...submitters.acknowledged.values()];
    const read = async () => await readAll(clients, [...told, ...[...world.queries.keys()].map((executionId) => ({ executionId }))]);
    await until(read, (execution) => !isOpen(execution), undefined, LONGEST_STANDSTILL_MS);
    const uplinks = point.kill.by === 'broker' ? NOTHING_WRONG : await this.compareUplinks();
    const executions = await until(read, isFinal, () => site.skip(running, DAY_MS));
    const found = audit(executions, submitters, world, { mustBeDone: false, believesUplinks: point.kill.by !== 'broker' });
    await field.stop();
    await running.victim.kill();
    clients.close();
    return {
      ...found,
      name: point.name,
      lost: [...found.lost, ...uplinks.lost],
      doubled: [...found.doubled, ...uplinks.doubled],
      kills: this.kills,
      missed: this.missed,
      acknowledged: told.length,
      carriedOut: world.executions.size,
      uplinks: field.published,
      errors: errorLines(site.folder),
      folder: site.folder,
    };
  }

  /** Every uplink that the broker took holds one reading, and the server has as many: it lost none and took none twice. */
  private async compareUplinks(): Promise<Pick<Outcome, 'lost' | 'doubled'>> {
    const ids = this.plant.actuators.map(({ sensorId }) => sensorId);
    let stored = -1;
    for (let look = 0; stored !== this.field.published && look < MOST_LOOKS; look += 1) {
      await wait(LOOK_EVERY_MS);
      stored = await countReadings(this.running.clients, ids);
    }
    const text = `the broker took ${this.field.published} uplinks, and ${stored} are stored`;
    return { lost: stored < this.field.published ? [text] : [], doubled: stored > this.field.published ? [text] : [] };
  }
}

/** A real one, which writes its sessions down as they change, where the machine has it and nobody asks for the other. */
async function startBroker(): Promise<Broker> {
  if (process.argv.includes('--aedes') || !hasMosquitto()) return await AedesProcess.start();
  return await Mosquitto.start({ lines: ['autosave_on_changes true', 'autosave_interval 1'] });
}

function hasMosquitto(): boolean {
  try {
    return findMosquitto() !== '';
  } catch {
    return false;
  }
}
