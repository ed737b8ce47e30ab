import { type ClientReadableStream, type ServiceError } from '@grpc/grpc-js';
import {
  ActuatorCommandServiceClient,
  type Command,
  CommandMode,
  CreateCommandRequest,
  ExecuteCommandRequest,
  type ExecuteCommandResponse,
  ParamType,
  VerificationStrategy,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import {
  type Connection,
  ConnectionServiceClient,
  CreateConnectionRequest,
} from '../../src/gen/connection/connection_service';
import {
  AddSensorsToDeviceRequest,
  CreateDigitalDeviceRequest,
  DeleteDigitalDeviceRequest,
  type DigitalDevice,
  DigitalDeviceServiceClient,
  SetSensorMappingsRequest,
  UpdateDigitalDeviceRequest,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import { GatewayServiceClient } from '../../src/gen/gateway/v1/gateway_service';
import {
  AccessControlServiceClient,
  CreateApiKeyRequest,
  type CreateApiKeyResponse,
  type KeyRestrictions,
} from '../../src/gen/organization_access_control/access_control_service';
import {
  CreateSensorTemplateRequest,
  ListNormalizedKeysRequest,
  type ListNormalizedKeysResponse,
  type SensorTemplate,
  SensorTemplateServiceClient,
} from '../../src/gen/sensor_template/v2/sensor_template_service';
import { SensorQueryServiceClient } from '../../src/gen/sensorquery/v1/sensor_query_service';
import { TestGateway } from '../executions/testGateway';
import { listAnswers, call, parseError, type GrpcErrorInfo } from '../support/edge';
import type { TestEngine } from '../support/engines';
import { as, startTestApp, type TestApp } from '../support/testApp';

/** A device with one sensor whose values arrive under `a`, and two commands. */
export interface LimitedDevice {
  readonly id: string;
  readonly clientDeviceId: string;
  readonly sensorId: string;
  readonly first: string;
  readonly second: string;
}

/** A complete server with devices, some of which restricted keys can access. */
export interface LimitedSite {
  readonly server: TestApp;
  readonly devices: DigitalDeviceServiceClient;
  readonly commands: ActuatorCommandServiceClient;
  readonly readings: SensorQueryServiceClient;
  readonly connections: readonly [string, string];
  /** On the second connection; keys name it. */
  readonly named: LimitedDevice;
  /** On the first connection; keys name the connection. */
  readonly bound: LimitedDevice;
  /** On the second connection; no key names it. */
  readonly outside: LimitedDevice;
  /** The headers of a key for the complete organization. */
  readonly all: Record<string, string>;
  /** Creates a key with these limits and returns its headers. */
  key(restrictions: Partial<KeyRestrictions>): Promise<Record<string, string>>;
  device(name: string, connectionId: string): Promise<LimitedDevice>;
  /** Binds a device to the other connection, or under another name there. */
  move(device: LimitedDevice, connectionId: string): Promise<void>;
  remove(device: LimitedDevice): Promise<void>;
  addCommand(deviceId: string, name: string): Promise<string>;
  execute(
    commandId: string,
    device: LimitedDevice,
    fields?: Record<string, string>,
    overrides?: Partial<ExecuteCommandRequest>,
  ): Promise<ExecuteCommandResponse>;
  /** Sends an uplink of a device that is bound to the connection now; resolves when it is stored. */
  send(connectionId: string, device: LimitedDevice, value: number): Promise<void>;
  stop(): Promise<void>;
}

/** Starts the server; `flags` overrides default settings. */
export async function startLimitedSite(
  engine: TestEngine,
  flags: Readonly<Record<string, string>> = {},
): Promise<LimitedSite> {
  const server = await startTestApp(engine, flags);
  const { organizationId } = server;
  const clients = {
    devices: server.client(DigitalDeviceServiceClient),
    commands: server.client(ActuatorCommandServiceClient),
    readings: server.client(SensorQueryServiceClient),
    gateways: server.client(GatewayServiceClient),
    links: server.client(ConnectionServiceClient),
    templates: server.client(SensorTemplateServiceClient),
    access: server.client(AccessControlServiceClient),
  };
  const { devices, commands, links, templates, access } = clients;
  const all = as((await server.newKey(organizationId)).key, organizationId);
  const connect = async (name: string): Promise<string> =>
    (
      await call<CreateConnectionRequest, Connection>(
        links.createConnection.bind(links),
        CreateConnectionRequest.fromPartial({ connectorId: 'gateway', name }),
        all,
      )
    ).id;
  const connections = [await connect('First'), await connect('Second')] as const;
  const { normalizedKeys } = await call<ListNormalizedKeysRequest, ListNormalizedKeysResponse>(
    templates.listNormalizedKeys.bind(templates),
    ListNormalizedKeysRequest.fromPartial({}),
    all,
  );
  const template = await call<CreateSensorTemplateRequest, SensorTemplate>(
    templates.createSensorTemplate.bind(templates),
    CreateSensorTemplateRequest.fromPartial({
      keyNameId: normalizedKeys[0]?.id ?? '',
      sensorType: 'level',
      valueType: 'number',
    }),
    all,
  );
  const gateways = new Map<string, TestGateway>();
  for (const connectionId of connections)
    gateways.set(
      connectionId,
      await TestGateway.attach({ gateways: clients.gateways }, { connectionId, headers: all }),
    );

  const addCommand: LimitedSite['addCommand'] = async (id, name) => {
    const command = {
      name,
      mode: CommandMode.COMMAND_MODE_DIRECT,
      verificationStrategy: VerificationStrategy.VERIFICATION_STRATEGY_NO_VERIFICATION,
      directPayload: '{"on": true}',
      paramsSchema: { n: { type: ParamType.PARAM_TYPE_INTEGER, default: 0 } },
    };
    return (
      await call<CreateCommandRequest, Command>(
        commands.createCommand.bind(commands),
        CreateCommandRequest.fromPartial({ id, command }),
        all,
      )
    ).id;
  };
  const device: LimitedSite['device'] = async (name, connectionId) => {
    const clientDeviceId = `client-${name}`;
    const { id } = await call<CreateDigitalDeviceRequest, DigitalDevice>(
      devices.createDigitalDevice.bind(devices),
      CreateDigitalDeviceRequest.fromPartial({ name, physicalDevice: { clientDeviceId, connectionId } }),
      all,
    );
    const { sensors } = await call<AddSensorsToDeviceRequest, DigitalDevice>(
      devices.addSensorsToDevice.bind(devices),
      AddSensorsToDeviceRequest.fromPartial({ id, sensorTemplateIds: [template.id] }),
      all,
    );
    const sensorId = sensors[0]?.id ?? '';
    await call(
      devices.setSensorMappings.bind(devices),
      SetSensorMappingsRequest.fromPartial({ id, mappings: [{ sensorId, sourcePath: 'a' }] }),
      all,
    );
    return {
      id,
      clientDeviceId,
      sensorId,
      first: await addCommand(id, 'First'),
      second: await addCommand(id, 'Second'),
    };
  };
  return {
    server,
    ...clients,
    connections,
    all,
    device,
    addCommand,
    named: await device('named', connections[1]),
    bound: await device('bound', connections[0]),
    outside: await device('outside', connections[1]),
    key: async (restrictions) => {
      const wanted = CreateApiKeyRequest.fromPartial({
        name: 'Limited',
        scopes: ['devices:read', 'commands:read', 'commands:write', 'telemetry:read'],
        restrictions,
      });
      return as(
        (await call<CreateApiKeyRequest, CreateApiKeyResponse>(access.createApiKey.bind(access), wanted, all)).key,
        organizationId,
      );
    },
    move: async ({ id }, connectionId) =>
      void (await call(
        devices.updateDigitalDevice.bind(devices),
        UpdateDigitalDeviceRequest.fromPartial({ id, physicalDevice: { connectionId } }),
        all,
      )),
    remove: async ({ id }) =>
      void (await call(devices.deleteDigitalDevice.bind(devices), DeleteDigitalDeviceRequest.fromPartial({ id }), all)),
    execute: async (commandId, { id }, fields = all, overrides = {}) =>
      await call(
        commands.executeCommand.bind(commands),
        ExecuteCommandRequest.fromPartial({ id, commandId, ...overrides }),
        fields,
      ),
    send: async (connectionId, { clientDeviceId }, value) =>
      void (await gateways.get(connectionId)?.uplink(clientDeviceId, { a: value })),
    stop: async () => {
      for (const gateway of gateways.values()) await gateway.cut();
      await server.stop();
    },
  };
}

/** Reads a stream until a message is the last wanted one, then disconnects. `onFirst` runs once the stream is open. */
export async function readUntil<Response>(
  stream: ClientReadableStream<Response>,
  isLast: (answer: Response) => boolean,
  onFirst?: () => Promise<unknown>,
): Promise<Response[]> {
  const answers: Response[] = [];
  for await (const answer of listAnswers(stream)) {
    answers.push(answer);
    if (answers.length === 1) await onFirst?.();
    if (isLast(answer)) break;
  }
  return answers;
}

/** Returns the error of a stream. */
export async function streamFails<Response>(stream: ClientReadableStream<Response>): Promise<GrpcErrorInfo> {
  return await new Promise((resolve) =>
    stream.on('error', (error: ServiceError) => resolve(parseError(error))).resume(),
  );
}
