import { CommandDefinition, CommandMode, CreateCommandRequest, ParamType, VerificationStrategy } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { type ConnectionPolicy, CreateConnectionRequest } from '../../src/gen/connection/connection_service';
import { AddSensorsToDeviceRequest, CreateDigitalDeviceRequest, type DigitalDevice, SetSensorMappingsRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { ListSensorTemplatesRequest, type ListSensorTemplatesResponse } from '../../src/gen/sensor_template/v2/sensor_template_service';
import { answer, type Clients } from './clients';

/** A device and the command that is executed on it. */
export interface Actuator {
  readonly deviceId: string;
  readonly commandId: string;
  readonly clientDeviceId: string;
}

/** What the commands work on. */
export interface Plant {
  readonly connectionId: string;
  readonly actuators: readonly Actuator[];
}

const DEVICES = 9;
const { VERIFICATION_STRATEGY_NO_VERIFICATION: UNVERIFIED, VERIFICATION_STRATEGY_WAIT_NEXT_UPLINK: NEXT_UPLINK } = VerificationStrategy;

/** Makes a gateway connection with devices behind it, a third of them with each way to verify. */
export async function makePlant(clients: Clients, policy: Partial<ConnectionPolicy>): Promise<Plant> {
  const { connections, templates, metadata } = clients;
  const request = CreateConnectionRequest.fromPartial({ connectorId: 'gateway', name: 'Field', policy });
  const { id: connectionId } = await answer<{ id: string }>((answered) => connections.createConnection(request, metadata, answered));
  const { sensorTemplates } = await answer<ListSensorTemplatesResponse>((answered) => templates.listSensorTemplates(ListSensorTemplatesRequest.fromPartial({}), metadata, answered));
  const position = sensorTemplates.find((template) => template.keyName === 'valve_position')?.id ?? '';
  const actuators = await Promise.all(Array.from({ length: DEVICES }, async (_, n) => await makeActuator(clients, connectionId, position, n)));
  return { connectionId, actuators };
}

async function makeActuator({ devices, commands, metadata }: Clients, connectionId: string, sensorTemplateId: string, n: number): Promise<Actuator> {
  const clientDeviceId = `valve-${n}`;
  const create = CreateDigitalDeviceRequest.fromPartial({ name: `Valve ${n}`, physicalDevice: { clientDeviceId, connectionId } });
  const { id } = await answer<DigitalDevice>((answered) => devices.createDigitalDevice(create, metadata, answered));
  const add = AddSensorsToDeviceRequest.fromPartial({ id, sensorTemplateIds: [sensorTemplateId] });
  const { sensors } = await answer<DigitalDevice>((answered) => devices.addSensorsToDevice(add, metadata, answered));
  const sensorId = sensors[0]?.id ?? '';
  const mappings = SetSensorMappingsRequest.fromPartial({ id, mappings: [{ sensorId, sourcePath: 'position' }] });
  await answer((answered) => devices.setSensorMappings(mappings, metadata, answered));
  const expected = n % 3 === 2 ? [{ sensorId, valueTemplate: '{{params.n}}' }] : [];
  const command = { ...moveCommand(), verificationStrategy: n % 3 === 0 ? UNVERIFIED : NEXT_UPLINK, expectedSensorStates: expected };
  const { id: commandId } = await answer<{ id: string }>((answered) => commands.createCommand(CreateCommandRequest.fromPartial({ id, command }), metadata, answered));
  return { deviceId: id, commandId, clientDeviceId };
}

/** Moves a device to a position; its parameter is `n`. */
export function moveCommand(): CommandDefinition {
  return CommandDefinition.fromPartial({
    name: 'Go to',
    mode: CommandMode.COMMAND_MODE_DIRECT,
    verificationStrategy: UNVERIFIED,
    paramsSchema: { n: { type: ParamType.PARAM_TYPE_NUMBER } },
    directPayload: '{"n": {{params.n}}, "trigger": "{{execution.triggerId}}"}',
  });
}
