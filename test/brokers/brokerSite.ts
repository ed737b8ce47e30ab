import { credentials } from '@grpc/grpc-js';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { JsonClient, type Json } from '../../src/cli/call/jsonClient';
import type { BrokerTarget } from '../../src/cli/simulate/broker/brokerFlags';
import { engines } from '../support/engines';
import { Mosquitto, type MosquittoOptions } from '../support/mosquitto';
import { startTestApp, type TestApp } from '../support/testApp';

/** A device with one sensor and the command that this sensor shows the effect of. */
export interface Valve {
  readonly deviceId: string;
  readonly sensorId: string;
  readonly commandId: string;
}

/** How an execution is told: its state and the events of its log. */
export interface Told {
  readonly state: string;
  readonly detail: string;
  readonly events: readonly string[];
}

const TOPICS = { uplinkTopic: 'plantroom/{clientDeviceId}/up', downlinkTopic: 'plantroom/{clientDeviceId}/down' };
/** The topics of `TOPICS` as the simulated devices are told them. */
export const DEVICE_TOPICS = { uplinkTopic: TOPICS.uplinkTopic, commandTopic: TOPICS.downlinkTopic, answerTopic: 'plantroom/{clientDeviceId}/answer' };
/** Devices answer at the response topic of MQTT 5. */
export const ANSWERS = { answer: { kind: 'response_topic', statusPath: 'status', okValues: ['ok'], messagePath: 'message' } };

/** The whole server and a real Mosquitto. Everything goes through the front doors of both. */
export class BrokerSite {
  private readonly stopping: (() => Promise<void>)[] = [];

  private constructor(
    readonly broker: Mosquitto,
    readonly server: TestApp,
    readonly api: JsonClient,
  ) {}

  /** Starts both. */
  static async start(options: MosquittoOptions = {}): Promise<BrokerSite> {
    const broker = await Mosquitto.start(options);
    const [sqlite] = engines();
    if (!sqlite) throw new Error('there is no engine');
    const server = await startTestApp(sqlite);
    const address = server.app.addresses.grpc.replace('127.0.0.1', 'localhost');
    const ca = readFileSync(server.app.ca ?? '');
    const api = await JsonClient.connect({ address, security: { ca }, credentials: credentials.createSsl(ca), key: server.key, organizationId: server.organizationId });
    return new BrokerSite(broker, server, api);
  }

  /** Stops everything, the last first. */
  async stop(): Promise<void> {
    for (const action of this.stopping.toReversed()) await action();
    await this.server.stop();
    await this.broker.remove();
  }

  /** Has this stopped with the site. */
  onStop(action: () => Promise<void>): void {
    this.stopping.push(action);
  }

  /** How the simulated devices sign in. */
  target(overrides: Partial<BrokerTarget> = {}): BrokerTarget {
    return { url: this.broker.url, username: undefined, password: undefined, ca: undefined, certificate: undefined, privateKey: undefined, ...overrides };
  }

  /** A connection of the connector `mqtt`; its id. */
  async mqtt(configuration: Json = {}, policy: Json = {}): Promise<string> {
    return idOf(await this.api.call('ConnectionService/CreateConnection', { connectorId: 'mqtt', name: `bus ${Math.random()}`, configuration: { url: this.broker.url, ...TOPICS, ...configuration }, policy }));
  }

  /** Resolves with the status once it is one of these. */
  async status(connectionId: string, ...states: readonly string[]): Promise<Json> {
    return await this.watched('ConnectionService/WatchConnectionStatus', { ids: [connectionId] }, ({ status }) => (states.includes((status as Json | null | undefined)?.['state'] as string) ? (status as Json) : undefined));
  }

  /** Resolves with the status once it holds this warning. */
  async warned(connectionId: string, warning: string): Promise<Json> {
    return await this.watched('ConnectionService/WatchConnectionStatus', { ids: [connectionId] }, ({ status }) => {
      const { warnings } = (status ?? {}) as Json;
      return Array.isArray(warnings) && warnings.includes(warning) ? (status as Json) : undefined;
    });
  }

  /** A bound device with a sensor on `sourcePath`, and a command that sends the position. */
  async valve(connectionId: string, { clientDeviceId = 'valve-1', sourcePath = 'position', command = {} }: { readonly clientDeviceId?: string; readonly sourcePath?: string; readonly command?: Json } = {}): Promise<Valve> {
    const deviceId = idOf(await this.api.call('DigitalDeviceService/CreateDigitalDevice', { name: clientDeviceId, physicalDevice: { clientDeviceId, connectionId } }));
    const templates = (await this.api.call('SensorTemplateService/ListSensorTemplates', {}))['sensorTemplates'] as Json[];
    const template = templates.find(({ keyName }) => keyName === 'valve_position') ?? {};
    const device = await this.api.call('DigitalDeviceService/AddSensorsToDevice', { id: deviceId, sensorTemplateIds: [idOf(template)] });
    const sensorId = idOf((device['sensors'] as Json[])[0] ?? {});
    await this.api.call('DigitalDeviceService/SetSensorMappings', { id: deviceId, mappings: [{ sensorId, sourcePath }] });
    const usual = { name: 'Set position', mode: 'direct', directPayload: '{"position": {{params.position}}}', paramsSchema: { position: { type: 'number' } }, verificationStrategy: 'wait_next_uplink', expectedSensorStates: [{ sensorId, valueTemplate: '{{params.position}}' }], convergenceTimeout: 60 };
    const commandId = idOf(await this.api.call('ActuatorCommandService/CreateCommand', { id: deviceId, command: { ...usual, ...command } }));
    return { deviceId, sensorId, commandId };
  }

  /** Executes the command, which takes a position unless that is undefined; the id of the execution. */
  async execute({ deviceId, commandId }: Valve, position: number | undefined): Promise<string> {
    return (await this.api.call('ActuatorCommandService/ExecuteCommand', { id: deviceId, commandId, params: position === undefined ? {} : { position } }))['executionId'] as string;
  }

  /** Resolves once the device's last value at this path is stored. */
  async keyed({ deviceId: id }: Valve, connectionId: string, clientDeviceId: string, path: string, value: unknown): Promise<void> {
    for (;;) {
      const { connectorKeys } = await this.api.call('DigitalDeviceService/GetConnectorKeys', { id, connectionId, clientDeviceId });
      if ((connectorKeys as Json[]).some((key) => key['name'] === path && (key['value'] as Json)['value'] === value)) return;
      await pause(20); // nobody tells that a key was stored
    }
  }

  /** What is known of an execution now. */
  async execution(executionId: string): Promise<Told> {
    const { state, detail, events } = await this.api.call('ActuatorCommandService/GetExecution', { executionId });
    return { state: state as string, detail: detail as string, events: (events as Json[]).map(({ event }) => event as string) };
  }

  /** Resolves with what is known of an execution as soon as `found` holds. */
  async until(executionId: string, found: (told: Told) => boolean): Promise<Told> {
    let told = await this.execution(executionId);
    await this.watched('ActuatorCommandService/WatchExecutions', { executionId }, async () => {
      told = await this.execution(executionId);
      return found(told) ? told : undefined;
    });
    return told;
  }

  /** Resolves as soon as it is in one of these states. */
  async reaches(executionId: string, ...states: readonly string[]): Promise<Told> {
    return await this.until(executionId, ({ state }) => states.includes(state));
  }

  /** Follows a stream until `look` finds something in an answer. */
  private async watched<T>(method: string, request: Json, look: (answer: Json) => T | undefined | Promise<T | undefined>): Promise<T> {
    const stop = new AbortController();
    const looks: Promise<void>[] = [];
    let found: T | undefined;
    const lookAt = async (answer: Json): Promise<void> => {
      try {
        found ??= await look(answer);
      } finally {
        if (found !== undefined) stop.abort();
      }
    };
    await this.api.watch(method, request, stop.signal, (answer) => void looks.push(lookAt(answer)));
    await Promise.all(looks);
    if (found === undefined) throw new Error(`the stream ${method} ended before it was found`);
    return found;
  }
}

function idOf(record: Json): string {
  return record['id'] as string;
}
