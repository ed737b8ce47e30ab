import { CommandDefinition, CommandMode, CreateCommandRequest, ParamType, VerificationStrategy } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { type ConnectionPolicy, CreateConnectionRequest } from '../../src/gen/connection/connection_service';
import { AddSensorsToDeviceRequest, CreateDigitalDeviceRequest, type DigitalDevice, SetSensorMappingsRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { ListSensorTemplatesRequest, type ListSensorTemplatesResponse } from '../../src/gen/sensor_template/v2/sensor_template_service';
import { answer, type Clients } from './clients';
import { GATEWAY_PLANT, type PlantKind } from './plantKinds';

/** A device and the command that is executed on it. */
export interface Actuator {
  readonly deviceId: string;
  readonly commandId: string;
  readonly clientDeviceId: string;
  /** Its position sensor. */
  readonly sensorId: string;
}

/** What the commands work on. */
export interface Plant {
  readonly connectionId: string;
  readonly actuators: readonly Actuator[];
}

/** How the command of a device is verified. */
interface Way {
  readonly strategy: VerificationStrategy;
  /** Whether its position sensor has to show it. */
  readonly sees: boolean;
}

/** Where a device is made. */
interface Place {
  readonly connectionId: string;
  readonly kind: PlantKind;
  /** The template of position sensors. */
  readonly position: string;
}

const { VERIFICATION_STRATEGY_NO_VERIFICATION: UNVERIFIED, VERIFICATION_STRATEGY_WAIT_NEXT_UPLINK: NEXT_UPLINK, VERIFICATION_STRATEGY_QUERY_AFTER_ACK: QUERY } = VerificationStrategy;
const WAYS: readonly Way[] = [
  { strategy: UNVERIFIED, sees: false },
  { strategy: NEXT_UPLINK, sees: false },
  { strategy: NEXT_UPLINK, sees: true },
  { strategy: QUERY, sees: false },
  { strategy: QUERY, sees: true },
];
const PAYLOAD = { n: '{{params.n}}', trigger: '{{execution.triggerId}}' };
const ENCODER = 'function encodeDownlink(input) { return { bytes: Buffer.from(JSON.stringify(input.data)) }; }';

/** Makes a connection with devices behind it: two for each way to verify, one with an encoder. */
export async function makePlant(clients: Clients, policy: Partial<ConnectionPolicy>, kind: PlantKind = GATEWAY_PLANT): Promise<Plant> {
  const { connections, templates, metadata } = clients;
  const request = CreateConnectionRequest.fromPartial({ connectorId: kind.connectorId, configuration: kind.configuration, name: 'Field', policy });
  const { id: connectionId } = await answer<{ id: string }>((answered) => connections.createConnection(request, metadata, answered));
  const { sensorTemplates } = await answer<ListSensorTemplatesResponse>((answered) => templates.listSensorTemplates(ListSensorTemplatesRequest.fromPartial({}), metadata, answered));
  const position = sensorTemplates.find((template) => template.keyName === 'valve_position')?.id ?? '';
  const actuators = await Promise.all([...WAYS, ...WAYS].map(async (way, n) => await makeActuator(clients, { connectionId, kind, position }, way, n)));
  return { connectionId, actuators };
}

async function makeActuator({ devices, commands, metadata }: Clients, { connectionId, kind, position }: Place, way: Way, n: number): Promise<Actuator> {
  const clientDeviceId = kind.idOf(n);
  const create = CreateDigitalDeviceRequest.fromPartial({ name: `Valve ${n}`, physicalDevice: { clientDeviceId, connectionId } });
  const { id } = await answer<DigitalDevice>((answered) => devices.createDigitalDevice(create, metadata, answered));
  const add = AddSensorsToDeviceRequest.fromPartial({ id, sensorTemplateIds: [position] });
  const { sensors } = await answer<DigitalDevice>((answered) => devices.addSensorsToDevice(add, metadata, answered));
  const sensorId = sensors[0]?.id ?? '';
  const mappings = SetSensorMappingsRequest.fromPartial({ id, mappings: [{ sensorId, sourcePath: kind.sourcePath }] });
  await answer((answered) => devices.setSensorMappings(mappings, metadata, answered));
  const ask = CreateCommandRequest.fromPartial({ id, command: { name: 'Where is it', mode: CommandMode.COMMAND_MODE_DIRECT, verificationStrategy: UNVERIFIED, directPayload: JSON.stringify({ read: true, ...kind.alsoSent }), ...kind.commandOf(n) } });
  const query = await answer<{ id: string }>((answered) => commands.createCommand(ask, metadata, answered));
  const command = {
    ...moveCommand(n >= WAYS.length, kind.alsoSent),
    ...kind.commandOf(n),
    verificationStrategy: way.strategy,
    expectedSensorStates: way.sees ? [{ sensorId, valueTemplate: '{{params.n}}' }] : [],
    queryCommandId: way.strategy === QUERY ? query.id : undefined,
  };
  const { id: commandId } = await answer<{ id: string }>((answered) => commands.createCommand(CreateCommandRequest.fromPartial({ id, command }), metadata, answered));
  return { deviceId: id, commandId, clientDeviceId, sensorId };
}

/** Moves a device to a position; its parameter is `n`. */
export function moveCommand(isEncoded: boolean, alsoSent: PlantKind['alsoSent'] = {}): CommandDefinition {
  const payload = { ...PAYLOAD, ...alsoSent };
  return CommandDefinition.fromPartial({
    name: 'Go to',
    verificationStrategy: UNVERIFIED,
    paramsSchema: { n: { type: ParamType.PARAM_TYPE_NUMBER } },
    ...(isEncoded
      ? { mode: CommandMode.COMMAND_MODE_ENCODED, encodedParamsTemplate: payload, customEncoder: ENCODER }
      : { mode: CommandMode.COMMAND_MODE_DIRECT, directPayload: JSON.stringify(payload) }),
  });
}
