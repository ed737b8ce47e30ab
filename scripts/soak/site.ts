import { connectAsync, type MqttClient } from 'mqtt';
import { UplinkOutcome, type Command } from '../../src/gen/gateway/v1/gateway_service';
import { Gateway } from '../bench/gateway';
import type { PlantroomServer } from '../bench/plantroomServer';
import { makeSite, openExecutor, type Executor, type Valve } from '../bench/site';
import { JSON_VALUES, makeSensingDevices, makeUplinkSite, type SensingDevice } from '../bench/uplinkSite';
import type { Random } from './random';
import { RestClient } from './restClient';
import { GATEWAY_METERS, METERS, SILENT, TIMERS, VALVES } from './standardLoad';

/** How long the server may take to answer an uplink of a gateway. */
const LONGEST_ACK_MS = 20_000;

/** The devices of the standard load, and what they know: who sent what, and what was acknowledged. */
export class SoakSite {
  /** Executions that the server took. */
  readonly executions: string[] = [];
  /** Uplinks that the broker or the server acknowledged, by the device's counting sensor. */
  readonly uplinks = new Map<string, number>();
  /** How many commands reached the gateway. */
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

  /** Makes it through the API, and connects its devices. */
  static async make(server: PlantroomServer, brokerUrl: string, random: Random): Promise<SoakSite> {
    const { devices } = await makeUplinkSite(server, brokerUrl, METERS);
    const { valves, connectionId } = await makeSite(server, server.key, VALVES);
    const rest = await RestClient.open(server);
    await rest.json('PATCH', `/api/v2/connections/${connectionId}`, { policy: TIMERS });
    const gatewayMeters = await makeSensingDevices(server, connectionId, GATEWAY_METERS, 'gateway-meter');
    const { hostname: host, port } = new URL(brokerUrl);
    const mqtt = await connectAsync({ host, port: Number(port), clientId: `soak-${process.pid}`, protocolVersion: 4 });
    const site = new SoakSite(server, brokerUrl, devices, gatewayMeters, valves, rest, await openExecutor({ server, key: server.key }), mqtt, random);
    site.gateway = await Gateway.attach(server, server.key, connectionId, {
      command: (command) => site.told(command),
      acknowledged: () => {},
      uplinked: ({ uplinkId, outcome }) => site.waiting.get(uplinkId)?.(outcome),
      ended: (said) => (site.gatewayEnd = said),
    });
    return site;
  }

  /** A meter publishes; done when the broker has it. */
  async mqttUplink(): Promise<void> {
    const n = (this.next += 1);
    const meter = this.meters[n % this.meters.length] as SensingDevice;
    await this.mqtt.publishAsync(`bench/${meter.clientDeviceId}/up`, JSON_VALUES.payload(n), { qos: 1 });
    this.acknowledged(meter);
  }

  /** A meter behind the gateway sends; done when the server says that it is stored. */
  async gatewayUplink(): Promise<void> {
    if (this.gatewayEnd !== undefined) throw new Error(`the stream of the gateway has ended: ${this.gatewayEnd}`);
    const n = (this.next += 1);
    const meter = this.gatewayMeters[n % this.gatewayMeters.length] as SensingDevice;
    const { promise, resolve, reject } = Promise.withResolvers<UplinkOutcome>();
    const id = this.gateway?.uplink(meter.clientDeviceId, JSON.parse(String(JSON_VALUES.payload(n))) as Record<string, unknown>) ?? '';
    this.waiting.set(id, resolve);
    const late = setTimeout(() => reject(new Error('an uplink of the gateway was not acknowledged')), LONGEST_ACK_MS);
    const outcome = await promise.finally(() => {
      clearTimeout(late);
      this.waiting.delete(id);
    });
    if (outcome !== UplinkOutcome.UPLINK_OUTCOME_STORED) throw new Error(`an uplink of the gateway was answered with ${UplinkOutcome[outcome]}`);
    this.acknowledged(meter);
  }

  /** A valve is moved; the id of the execution. */
  async execute(): Promise<string> {
    const executionId = await this.executor.execute(this.random.oneOf(this.valves), (this.next += 1));
    this.executions.push(executionId);
    return executionId;
  }

  /** All its connections. */
  async close(): Promise<void> {
    await this.gateway?.detach();
    this.executor.close();
    this.rest.close();
    await this.mqtt.endAsync();
  }

  /** A device does it, or is silent for ever. */
  private told({ executionId }: Command): void {
    this.commands += 1;
    this.gateway?.received(executionId);
    if (!this.random.chance(SILENT)) this.gateway?.accepted(executionId);
  }

  private acknowledged({ counter }: SensingDevice): void {
    this.uplinks.set(counter, (this.uplinks.get(counter) ?? 0) + 1);
  }
}
