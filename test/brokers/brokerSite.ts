import { credentials } from '@grpc/grpc-js';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { JsonClient, type Json } from '../../src/cli/call/jsonClient';
import type { BrokerTarget } from '../../src/cli/simulate/broker/brokerFlags';
import { engines } from '../support/engines';
import { Mosquitto, type MosquittoOptions } from '../support/mosquitto';
import { startTestApp, type TestApp } from '../support/testApp';

/** A device with one sensor, and the command whose effect that sensor shows. */
export interface Valve {
  readonly deviceId: string;
  readonly sensorId: string;
  readonly commandId: string;
}

/** An execution as the API reports it: its state and the events of its log. */
export interface ReportedState {
  readonly state: string;
  readonly detail: string;
  readonly events: readonly string[];
}

const TOPICS = { uplinkTopic: 'plantroom/{clientDeviceId}/up', downlinkTopic: 'plantroom/{clientDeviceId}/down' };
/** The topics of `TOPICS`, in the form that the simulated devices expect. */
export const DEVICE_TOPICS = {
  uplinkTopic: TOPICS.uplinkTopic,
  commandTopic: TOPICS.downlinkTopic,
  answerTopic: 'plantroom/{clientDeviceId}/answer',
};
/** The configuration for devices that answer at the MQTT 5 response topic. */
export const RESPONSE_TOPIC_ANSWERS = {
  answer: { kind: 'response_topic', statusPath: 'status', okValues: ['ok'], messagePath: 'message' },
};

/** The complete server with a real Mosquitto. Tests use only the public interfaces of both. */
export class BrokerSite {
  private readonly stopping: (() => Promise<void>)[] = [];

  private constructor(
    readonly broker: Mosquitto,
    readonly server: TestApp,
    readonly api: JsonClient,
  ) {}

  /** Starts the server and the broker. */
  static async start(options: MosquittoOptions = {}): Promise<BrokerSite> {
    const broker = await Mosquitto.start(options);
    const [sqlite] = engines();
    if (!sqlite) throw new Error('there is no engine');
    const server = await startTestApp(sqlite);
    const address = server.app.addresses.grpc.replace('127.0.0.1', 'localhost');
    const ca = readFileSync(server.app.ca ?? '');
    const api = new JsonClient({
      address,
      security: { ca },
      credentials: credentials.createSsl(ca),
      key: server.key,
      organizationId: server.organizationId,
    });
    return new BrokerSite(broker, server, api);
  }

  /** Stops everything in reverse order. */
  async stop(): Promise<void> {
    for (const action of this.stopping.toReversed()) await action();
    await this.server.stop();
    await this.broker.remove();
  }

  /** Registers an action that runs when the site stops. */
  onStop(action: () => Promise<void>): void {
    this.stopping.push(action);
  }

  /** Returns the broker address and the credentials of the simulated devices. */
  getTarget(overrides: Partial<BrokerTarget> = {}): BrokerTarget {
    return {
      url: this.broker.url,
      username: undefined,
      password: undefined,
      ca: undefined,
      certificate: undefined,
      privateKey: undefined,
      ...overrides,
    };
  }

  /** Creates a connection of the connector `mqtt` and returns its id. */
  async createMqttConnection(configuration: Json = {}, policy: Json = {}): Promise<string> {
    return getId(
      await this.api.call('ConnectionService/CreateConnection', {
        connectorId: 'mqtt',
        name: `bus ${Math.random()}`,
        configuration: { url: this.broker.url, ...TOPICS, ...configuration },
        policy,
      }),
    );
  }

  /** Resolves with the status once it is one of these states. */
  async waitForStatus(connectionId: string, ...states: readonly string[]): Promise<Json> {
    return await this.findInStream('ConnectionService/WatchConnectionStatus', { ids: [connectionId] }, ({ status }) =>
      states.includes((status as Json | null | undefined)?.['state'] as string) ? (status as Json) : undefined,
    );
  }

  /** Resolves with the status once it contains this warning. */
  async waitForWarning(connectionId: string, warning: string): Promise<Json> {
    return await this.findInStream('ConnectionService/WatchConnectionStatus', { ids: [connectionId] }, ({ status }) => {
      const { warnings } = (status ?? {}) as Json;
      return Array.isArray(warnings) && warnings.includes(warning) ? (status as Json) : undefined;
    });
  }

  /** Creates a bound device with a sensor on `sourcePath`, and a command that sends the position. */
  async createValve(
    connectionId: string,
    {
      clientDeviceId = 'valve-1',
      sourcePath = 'position',
      command = {},
    }: { readonly clientDeviceId?: string; readonly sourcePath?: string; readonly command?: Json } = {},
  ): Promise<Valve> {
    const deviceId = getId(
      await this.api.call('DigitalDeviceService/CreateDigitalDevice', {
        name: clientDeviceId,
        physicalDevice: { clientDeviceId, connectionId },
      }),
    );
    const templates = (await this.api.call('SensorTemplateService/ListSensorTemplates', {}))[
      'sensorTemplates'
    ] as Json[];
    const template = templates.find(({ keyName }) => keyName === 'valve_position') ?? {};
    const device = await this.api.call('DigitalDeviceService/AddSensorsToDevice', {
      id: deviceId,
      sensorTemplateIds: [getId(template)],
    });
    const sensorId = getId((device['sensors'] as Json[])[0] ?? {});
    await this.api.call('DigitalDeviceService/SetSensorMappings', {
      id: deviceId,
      mappings: [{ sensorId, sourcePath }],
    });
    const defaults = {
      name: 'Set position',
      mode: 'direct',
      directPayload: '{"position": {{params.position}}}',
      paramsSchema: { position: { type: 'number' } },
      verificationStrategy: 'wait_next_uplink',
      expectedSensorStates: [{ sensorId, valueTemplate: '{{params.position}}' }],
      convergenceTimeout: 60,
    };
    const commandId = getId(
      await this.api.call('ActuatorCommandService/CreateCommand', {
        id: deviceId,
        command: { ...defaults, ...command },
      }),
    );
    return { deviceId, sensorId, commandId };
  }

  /**
   * Executes the command and returns the id of the execution. A command without a parameter has the position undefined.
   */
  async execute({ deviceId, commandId }: Valve, position: number | undefined): Promise<string> {
    return (
      await this.api.call('ActuatorCommandService/ExecuteCommand', {
        id: deviceId,
        commandId,
        params: position === undefined ? {} : { position },
      })
    )['executionId'] as string;
  }

  /** Resolves once the last value of the device at this path is stored. */
  async waitForKey(
    { deviceId: id }: Valve,
    connectionId: string,
    clientDeviceId: string,
    path: string,
    value: unknown,
  ): Promise<void> {
    for (;;) {
      const { connectorKeys } = await this.api.call('DigitalDeviceService/GetConnectorKeys', {
        id,
        connectionId,
        clientDeviceId,
      });
      if ((connectorKeys as Json[]).some((key) => key['name'] === path && (key['value'] as Json)['value'] === value))
        return;
      await pause(20); // No event reports that a key was stored.
    }
  }

  /** Returns the current report of an execution. */
  async getExecution(executionId: string): Promise<ReportedState> {
    const { state, detail, events } = await this.api.call('ActuatorCommandService/GetExecution', { executionId });
    return {
      state: state as string,
      detail: detail as string,
      events: (events as Json[]).map(({ event }) => event as string),
    };
  }

  /** Resolves with the report of an execution as soon as `found` holds. */
  async waitForExecution(executionId: string, found: (report: ReportedState) => boolean): Promise<ReportedState> {
    let report = await this.getExecution(executionId);
    await this.findInStream('ActuatorCommandService/WatchExecutions', { executionId }, async () => {
      report = await this.getExecution(executionId);
      return found(report) ? report : undefined;
    });
    return report;
  }

  /** Resolves as soon as the execution is in one of these states. */
  async waitForState(executionId: string, ...states: readonly string[]): Promise<ReportedState> {
    return await this.waitForExecution(executionId, ({ state }) => states.includes(state));
  }

  /** Reads a stream until `findResult` finds something in a response. */
  private async findInStream<T>(
    method: string,
    request: Json,
    findResult: (answer: Json) => T | undefined | Promise<T | undefined>,
  ): Promise<T> {
    const stop = new AbortController();
    const looks: Promise<void>[] = [];
    let found: T | undefined;
    const lookAt = async (answer: Json): Promise<void> => {
      try {
        found ??= await findResult(answer);
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

function getId(record: Json): string {
  return record['id'] as string;
}
