import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { compareExecutions, isFinal, isOpen, readExecutions } from './executionFindings';
import type { BrokerPoint } from './brokerPoints';
import { compareReadings, countReadings, type ReadingTotals } from './countReadings';
import { type CrashBroker, startBroker } from './crashBroker';
import { LoraNetwork } from './loraNetwork';
import { MqttFleet } from './mqttFleet';
import { type Plant, createPlant } from './plant';
import { createPlantKind } from './plantKinds';
import { readErrorLines } from './serverLog';
import { type Outcome, pollExecutions } from './outcome';
import type { Running, Site } from './site';
import { Submitters } from './submitters';
import { World } from './world';

const MAX_ROUND_MS = 8000;
const MAX_KILL_DELAY_MS = 1500;
const PAUSE_MS = 4;
/** The number of commands per device that are submitted while the broker is killed and restarted. */
const MAX_COMMANDS_WHILE_OFFLINE = 20;
const BROKER_PAUSE_MS = 80;
const TIMEOUT_S = 86_400;
/** MQTT: how long an execution whose result was lost blocks its device, in seconds. */
const RESULT_TIMEOUT_S = 2;
/** The delivery timeout where the broker is killed, in seconds. */
const BROKER_KILL_TIMEOUT_S = 60;
const AFTERMATH_MS = 2000;
const GRACE_MS = 61_000;
const UPLINK_INTERVAL_S = 10;
const POLL_INTERVAL_MS = 200;
const MAX_IDLE_MS = 3000;
const DAY_MS = 86_400_000;

const MAX_POLLS = 40;
/** Three sessions that the broker ends within 10 s look as if another client had the same client id. */
const CONFLICTS = ['mqtt.client_id_conflict', 'chirpstack.client_id_conflict'];
const NO_FINDINGS = { lost: [], doubled: [] };

/** A site whose devices are behind a broker, and whose server or broker is killed repeatedly. */
export class BrokerProof {
  private kills = 0;
  private missed = 0;

  private constructor(
    private readonly point: BrokerPoint,
    private readonly site: Site,
    private readonly broker: CrashBroker,
    private readonly world: World,
    private readonly field: MqttFleet | LoraNetwork,
    private readonly plant: Plant,
    private readonly submitters: Submitters,
    private running: Running,
  ) {}

  /** Kills `rounds` times and returns the outcome. */
  static async prove(point: BrokerPoint, site: Site, rounds: number, maxMissed: number): Promise<Outcome> {
    const broker = await startBroker();
    try {
      const proof = await BrokerProof.prepare(point, site, broker);
      while (proof.kills < rounds && proof.missed < rounds + maxMissed) await proof.runRound();
      return await proof.collectOutcome();
    } finally {
      await broker.remove();
    }
  }

  private static async prepare(point: BrokerPoint, site: Site, broker: CrashBroker): Promise<BrokerProof> {
    const running = await site.startWithoutTrap();
    const timeout = point.kill.by === 'broker' ? BROKER_KILL_TIMEOUT_S : TIMEOUT_S;
    const kind = createPlantKind(point.transport, broker.url);
    const plant = await createPlant(
      running.clients,
      {
        queueLimit: 1000,
        deliveryTimeout: timeout,
        ackTimeout: point.transport === 'chirpstack' ? timeout : RESULT_TIMEOUT_S,
        uplinkInterval: UPLINK_INTERVAL_S,
      },
      kind,
    );
    const world = new World();
    const ids = plant.actuators.map(({ clientDeviceId }) => clientDeviceId);
    const field =
      point.transport === 'chirpstack' ? new LoraNetwork(broker.url, world, ids) : new MqttFleet(broker.url, world);
    await field.start();
    return new BrokerProof(point, site, broker, world, field, plant, new Submitters(plant.actuators, {}), running);
  }

  private async runRound(): Promise<void> {
    const { kill } = this.point;
    if (kill.by === 'line') this.running.victim.arm(kill.trap());
    if (kill.by === 'broker') await this.killBroker();
    else await this.killServer(kill.by === 'time');
  }

  private async killServer(fromOutside: boolean): Promise<void> {
    const { victim, clients } = this.running;
    const working = this.submitters.run(clients, PAUSE_MS);
    if (fromOutside) void wait(randomInt(MAX_KILL_DELAY_MS)).then(async () => await victim.kill());
    const isKilled = await Promise.race([victim.ended.then(() => true), wait(MAX_ROUND_MS, false, { ref: false })]);
    if (isKilled) this.kills += 1;
    else this.missed += 1;
    await victim.kill();
    await working;
    clients.close();
    this.running = await this.site.startWithoutTrap();
  }

  /** Kills and restarts the broker while the callers continue. */
  private async killBroker(): Promise<void> {
    const working = this.submitters.run(this.running.clients, BROKER_PAUSE_MS, MAX_COMMANDS_WHILE_OFFLINE);
    await this.waitUntilBusy();
    await wait(randomInt(MAX_KILL_DELAY_MS));
    await this.broker.kill();
    this.kills += 1;
    await this.field.stop();
    await wait(randomInt(MAX_KILL_DELAY_MS));
    await this.broker.restart();
    await this.field.start();
    await working;
    await wait(AFTERMATH_MS);
    // Executions whose result was lost block their devices until they expire.
    this.site.advanceClock(this.running, 1000 * (BROKER_KILL_TIMEOUT_S + UPLINK_INTERVAL_S) + GRACE_MS);
  }

  /** Resolves when the devices carry out commands, or after 8 s. */
  private async waitUntilBusy(): Promise<void> {
    const before = this.world.executions.size;
    for (let poll = 0; this.world.executions.size < before + this.plant.actuators.length && poll < MAX_POLLS; poll += 1)
      await wait(POLL_INTERVAL_MS);
  }

  /** Finishes the open work, then moves the clock past every deadline, and compares. */
  private async collectOutcome(): Promise<Outcome> {
    const { submitters, site, running, world, point, field } = this;
    const { clients } = running;
    await submitters.retryOpenRequests(clients);
    const acknowledged = [...submitters.acknowledged.values()];
    const read = async () =>
      await readExecutions(clients, [
        ...acknowledged,
        ...[...world.queries.keys()].map((executionId) => ({ executionId })),
      ]);
    await pollExecutions(read, (execution) => !isOpen(execution), undefined, MAX_IDLE_MS);
    const uplinks = point.kill.by === 'broker' ? NO_FINDINGS : await this.compareUplinks();
    const executions = await pollExecutions(read, isFinal, () => site.advanceClock(running, DAY_MS));
    const found = compareExecutions(executions, submitters, world, {
      mustSucceed: false,
      uplinksProveDelivery: point.kill.by !== 'broker',
    });
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
      acknowledged: acknowledged.length,
      carriedOut: world.executions.size,
      uplinks: field.accepted.count,
      errors: readErrorLines(site.folder, point.kill.by === 'broker' ? CONFLICTS : []),
      folder: site.folder,
    };
  }

  /** Compares the uplinks that the broker accepted, of one reading each, with the readings on the server. */
  private async compareUplinks(): Promise<Pick<Outcome, 'lost' | 'doubled'>> {
    const ids = this.plant.actuators.map(({ sensorId }) => sensorId);
    let stored: ReadingTotals = { count: -1, sum: 0 };
    for (let poll = 0; stored.count !== this.field.accepted.count && poll < MAX_POLLS; poll += 1) {
      await wait(POLL_INTERVAL_MS);
      stored = await countReadings(this.running.clients, ids);
    }
    return compareReadings(this.field.accepted, stored);
  }
}
