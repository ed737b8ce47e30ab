import { setTimeout as wait } from 'node:timers/promises';
import {
  CommandDefinition,
  CommandMode,
  CreateCommandRequest,
  ParamType,
  VerificationStrategy,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import {
  type Connection,
  type ConnectionPolicy,
  ConnectionState,
  CreateConnectionRequest,
  GetConnectionRequest,
} from '../../src/gen/connection/connection_service';
import {
  AddSensorsToDeviceRequest,
  CreateDigitalDeviceRequest,
  type DigitalDevice,
  SetSensorMappingsRequest,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import {
  ListSensorTemplatesRequest,
  type ListSensorTemplatesResponse,
} from '../../src/gen/sensor_template/v2/sensor_template_service';
import { callUnary, type Clients } from './clients';
import { GATEWAY_PLANT, type PlantKind } from './plantKinds';

/** A device and its command. */
export interface Actuator {
  readonly deviceId: string;
  readonly commandId: string;
  readonly clientDeviceId: string;
  /** Its position sensor. */
  readonly sensorId: string;
}

/** A connection and the devices behind it. */
export interface Plant {
  readonly connectionId: string;
  readonly actuators: readonly Actuator[];
}

/** How the command of a device is verified. */
interface Verification {
  readonly strategy: VerificationStrategy;
  /** Whether the position sensor must report the new position. */
  readonly checksSensor: boolean;
}

/** What the creation of a device needs. */
interface DeviceContext {
  readonly connectionId: string;
  readonly kind: PlantKind;
  /** The template of position sensors. */
  readonly position: string;
}

const {
  VERIFICATION_STRATEGY_NO_VERIFICATION: UNVERIFIED,
  VERIFICATION_STRATEGY_WAIT_NEXT_UPLINK: NEXT_UPLINK,
  VERIFICATION_STRATEGY_QUERY_AFTER_ACK: QUERY,
} = VerificationStrategy;
const VERIFICATIONS: readonly Verification[] = [
  { strategy: UNVERIFIED, checksSensor: false },
  { strategy: NEXT_UPLINK, checksSensor: false },
  { strategy: NEXT_UPLINK, checksSensor: true },
  { strategy: QUERY, checksSensor: false },
  { strategy: QUERY, checksSensor: true },
];
const CONNECTED: readonly ConnectionState[] = [
  ConnectionState.CONNECTION_STATE_CONNECTED,
  ConnectionState.CONNECTION_STATE_DEGRADED,
];
const POLL_INTERVAL_MS = 50;
const PAYLOAD = { n: '{{params.n}}', trigger: '{{execution.triggerId}}' };
const ENCODER = 'function encodeDownlink(input) { return { bytes: Buffer.from(JSON.stringify(input.data)) }; }';

/** Creates a connection with two devices for each kind of verification, one of them with an encoder. */
export async function createPlant(
  clients: Clients,
  policy: Partial<ConnectionPolicy>,
  kind: PlantKind = GATEWAY_PLANT,
): Promise<Plant> {
  const { connections, templates, metadata } = clients;
  const request = CreateConnectionRequest.fromPartial({
    connectorId: kind.connectorId,
    configuration: kind.configuration,
    name: 'Field',
    policy,
  });
  const { id: connectionId } = await callUnary<{ id: string }>((callback) =>
    connections.createConnection(request, metadata, callback),
  );
  const { sensorTemplates } = await callUnary<ListSensorTemplatesResponse>((callback) =>
    templates.listSensorTemplates(ListSensorTemplatesRequest.fromPartial({}), metadata, callback),
  );
  const position = sensorTemplates.find((template) => template.keyName === 'valve_position')?.id ?? '';
  const actuators = await Promise.all(
    [...VERIFICATIONS, ...VERIFICATIONS].map(
      async (verification, n) => await createActuator(clients, { connectionId, kind, position }, verification, n),
    ),
  );
  return { connectionId, actuators };
}

async function createActuator(
  { devices, commands, metadata }: Clients,
  { connectionId, kind, position }: DeviceContext,
  verification: Verification,
  n: number,
): Promise<Actuator> {
  const clientDeviceId = kind.getId(n);
  const create = CreateDigitalDeviceRequest.fromPartial({
    name: `Valve ${n}`,
    physicalDevice: { clientDeviceId, connectionId },
  });
  const { id } = await callUnary<DigitalDevice>((callback) => devices.createDigitalDevice(create, metadata, callback));
  const add = AddSensorsToDeviceRequest.fromPartial({ id, sensorTemplateIds: [position] });
  const { sensors } = await callUnary<DigitalDevice>((callback) => devices.addSensorsToDevice(add, metadata, callback));
  const sensorId = sensors[0]?.id ?? '';
  const mappings = SetSensorMappingsRequest.fromPartial({ id, mappings: [{ sensorId, sourcePath: kind.sourcePath }] });
  await callUnary((callback) => devices.setSensorMappings(mappings, metadata, callback));
  const queryRequest = CreateCommandRequest.fromPartial({
    id,
    command: {
      name: 'Read position',
      mode: CommandMode.COMMAND_MODE_DIRECT,
      verificationStrategy: UNVERIFIED,
      directPayload: JSON.stringify({ read: true, ...kind.extraFields }),
      ...kind.toCommand(n),
    },
  });
  const query = await callUnary<{ id: string }>((callback) => commands.createCommand(queryRequest, metadata, callback));
  const command = {
    ...createMoveCommand(n >= VERIFICATIONS.length, kind.extraFields),
    ...kind.toCommand(n),
    verificationStrategy: verification.strategy,
    expectedSensorStates: verification.checksSensor ? [{ sensorId, valueTemplate: '{{params.n}}' }] : [],
    queryCommandId: verification.strategy === QUERY ? query.id : undefined,
  };
  const { id: commandId } = await callUnary<{ id: string }>((callback) =>
    commands.createCommand(CreateCommandRequest.fromPartial({ id, command }), metadata, callback),
  );
  return { deviceId: id, commandId, clientDeviceId, sensorId };
}

/** Resolves when the server is connected to the broker, which then has a session for it. */
export async function waitUntilConnected({ connections, metadata }: Clients, id: string): Promise<void> {
  for (let state: ConnectionState | undefined; state === undefined || !CONNECTED.includes(state);) {
    await wait(POLL_INTERVAL_MS);
    const { status } = await callUnary<Connection>((callback) =>
      connections.getConnection(GetConnectionRequest.fromPartial({ id }), metadata, callback),
    );
    state = status?.state;
  }
}

/** Creates a command that moves a device to the position in its parameter `n`. */
export function createMoveCommand(isEncoded: boolean, extraFields: PlantKind['extraFields'] = {}): CommandDefinition {
  const payload = { ...PAYLOAD, ...extraFields };
  return CommandDefinition.fromPartial({
    name: 'Set position',
    verificationStrategy: UNVERIFIED,
    paramsSchema: { n: { type: ParamType.PARAM_TYPE_NUMBER } },
    ...(isEncoded
      ? { mode: CommandMode.COMMAND_MODE_ENCODED, encodedParamsTemplate: payload, customEncoder: ENCODER }
      : { mode: CommandMode.COMMAND_MODE_DIRECT, directPayload: JSON.stringify(payload) }),
  });
}
