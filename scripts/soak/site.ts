import { connectAsync, type MqttClient } from 'mqtt';
import { UplinkOutcome, type Command } from '../../src/gen/gateway/v1/gateway_service';
import { Gateway } from '../bench/gateway';
import type { PlantroomServer } from '../bench/plantroomServer';
import { createSite, openExecutor, type Executor, type Valve } from '../bench/site';
import { JSON_VALUES, createSensingDevices, createUplinkSite, type SensingDevice } from '../bench/uplinkSite';
import type { Random } from './random';
import { RestClient } from './restClient';
import { GATEWAY_METERS, METERS, SILENT_SHARE, TIMERS, VALVES } from './standardLoad';

/** The maximum time until the server acknowledges an uplink of a gateway. */
const MAX_ACK_MS = 20_000;

/** The devices of the standard load, with a record of what they sent and what was acknowledged. */
export class SoakSite {
  /** Executions that the server accepted. */
  readonly executions: string[] = [];
  /** The number of uplinks that the broker or the server acknowledged, by the counter sensor of the device. */
  readonly uplinks = new Map<string, number>();
  /** The number of commands that reached the gateway. */
  commands = 0;
  private readonly waiting = new Map<string, (outcome: UplinkOutcome) => void>();
  private next = 0;

  private constructor(
    readonly server: PlantroomServer,
    readonly brokerUrl: string,
    readonly meters: readonly SensingDevice[],
    readonly gatewayMeters: readonly SensingDevice[],
    readonly valves: readonly Valve[],
    readonly rest: RestClient,
    private readonly executor: Executor,
    private readonly mqtt: MqttClient,
    private readonly random: Random,
  ) {}

  private gateway: Gateway | undefined;
  private gatewayEnd: string | undefined;

  /** Creates the site through the API, and connects its devices. */
  static async create(server: PlantroomServer, brokerUrl: string, random: Random): Promise<SoakSite> {
    const { devices } = await createUplinkSite(server, brokerUrl, METERS);
    const { valves, connectionId } = await createSite(server, server.key, VALVES);
    const rest = await RestClient.open(server);
    await rest.requestJson('PATCH', `/api/v2/connections/${connectionId}`, { policy: TIMERS });
    const gatewayMeters = await createSensingDevices(server, connectionId, GATEWAY_METERS, 'gateway-meter');
    const { hostname: host, port } = new URL(brokerUrl);
    const mqtt = await connectAsync({ host, port: Number(port), clientId: `soak-${process.pid}`, protocolVersion: 4 });
    const site = new SoakSite(
      server,
      brokerUrl,
      devices,
      gatewayMeters,
      valves,
      rest,
      await openExecutor({ server, key: server.key }),
      mqtt,
      random,
    );
    site.gateway = await Gateway.attach(server, server.key, connectionId, {
      command: (command) => site.handleCommand(command),
      acknowledged: () => {},
      uplinkAcknowledged: ({ uplinkId, outcome }) => site.waiting.get(uplinkId)?.(outcome),
      ended: (reason) => (site.gatewayEnd = reason),
    });
    return site;
  }

  /** Publishes an uplink of a meter; resolves when the broker has acknowledged it. */
  async sendMqttUplink(): Promise<void> {
    const n = (this.next += 1);
    const meter = this.meters[n % this.meters.length] as SensingDevice;
    await this.mqtt.publishAsync(`bench/${meter.clientDeviceId}/up`, JSON_VALUES.payload(n), { qos: 1 });
    this.countAcknowledged(meter);
  }

  /** Sends an uplink of a meter behind the gateway; resolves when the server has stored it. */
  async sendGatewayUplink(): Promise<void> {
    if (this.gatewayEnd !== undefined) throw new Error(`the stream of the gateway has ended: ${this.gatewayEnd}`);
    const n = (this.next += 1);
    const meter = this.gatewayMeters[n % this.gatewayMeters.length] as SensingDevice;
    const { promise, resolve, reject } = Promise.withResolvers<UplinkOutcome>();
    const id =
      this.gateway?.sendUplink(
        meter.clientDeviceId,
        JSON.parse(String(JSON_VALUES.payload(n))) as Record<string, unknown>,
      ) ?? '';
    this.waiting.set(id, resolve);
    const late = setTimeout(() => reject(new Error('an uplink of the gateway was not acknowledged')), MAX_ACK_MS);
    const outcome = await promise.finally(() => {
      clearTimeout(late);
      this.waiting.delete(id);
    });
    if (outcome !== UplinkOutcome.UPLINK_OUTCOME_STORED)
      throw new Error(`an uplink of the gateway was acknowledged with ${UplinkOutcome[outcome]}`);
    this.countAcknowledged(meter);
  }

  /** Moves a valve and returns the id of the execution. */
  async execute(): Promise<string> {
    const executionId = await this.executor.execute(this.random.pickOne(this.valves), (this.next += 1));
    this.executions.push(executionId);
    return executionId;
  }

  /** Closes all connections. */
  async close(): Promise<void> {
    await this.gateway?.detach();
    this.executor.close();
    this.rest.close();
    await this.mqtt.endAsync();
  }

  /** Carries out a command, or never responds. */
  private handleCommand({ executionId }: Command): void {
    this.commands += 1;
    this.gateway?.confirmCommand(executionId);
    if (!this.random.chance(SILENT_SHARE)) this.gateway?.acceptCommand(executionId);
  }

  private countAcknowledged({ counter }: SensingDevice): void {
    this.uplinks.set(counter, (this.uplinks.get(counter) ?? 0) + 1);
  }
}
