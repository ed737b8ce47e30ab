import type { Json, JsonClient } from '../call/jsonClient';

/** What the demo works with. */
export interface DemoSite {
  readonly connectionId: string;
  readonly deviceId: string;
  readonly commandId: string;
}

const SET_POSITION = {
  name: 'Set position',
  mode: 'direct',
  verificationStrategy: 'no_verification',
  paramsSchema: { position: { type: 'number', min: 0, max: 100 } },
  directPayload: '{"position": {{params.position}}}',
};

/** Makes a connection, a heating valve with its sensors, a room sensor, and a command of the valve. */
export async function makeDemoSite(api: JsonClient): Promise<DemoSite> {
  const connectionId = idOf(await api.call('ConnectionService/CreateConnection', { connectorId: 'gateway', name: 'Boiler room' }));
  const deviceId = idOf(await api.call('DigitalDeviceService/CreateDigitalDevice', { name: 'Heating valve', physicalDevice: { clientDeviceId: 'valve-1', connectionId } }));
  await api.call('DigitalDeviceService/CreateDigitalDevice', { name: 'Office air', physicalDevice: { clientDeviceId: 'room-1', connectionId } });
  await mapSensors(api, deviceId, { position: 'valve_position', temperature: 'temperature' });
  const commandId = idOf(await api.call('ActuatorCommandService/CreateCommand', { id: deviceId, command: SET_POSITION }));
  return { connectionId, deviceId, commandId };
}

/** Attaches a sensor for each path of an uplink, by the name of the measured thing. */
async function mapSensors(api: JsonClient, id: string, names: Readonly<Record<string, string>>): Promise<void> {
  const templates = (await api.call('SensorTemplateService/ListSensorTemplates', {}))['sensorTemplates'] as Json[];
  const sensorTemplateIds = Object.values(names).map((name) => idOf(templates.find((template) => template['keyName'] === name) ?? {}));
  const device = await api.call('DigitalDeviceService/AddSensorsToDevice', { id, sensorTemplateIds });
  const sensors = device['sensors'] as Json[];
  await api.call('DigitalDeviceService/SetSensorMappings', { id, mappings: Object.keys(names).map((sourcePath, at) => ({ sensorId: idOf(sensors[at] ?? {}), sourcePath })) });
}

function idOf(record: Json): string {
  return record['id'] as string;
}
