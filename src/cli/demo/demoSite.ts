import type { Json, JsonClient } from '../call/jsonClient';

/** What the demo works with. */
export interface DemoSite {
  readonly connectionId: string;
  readonly deviceId: string;
  readonly commandId: string;
}

/** The encoder of the valve: what the simulated valve understands. */
export const ENCODER = 'function encodeDownlink(input) {\n  return { bytes: [0x01, input.data.position], fPort: 10 };\n}\n';

/** The parameters that the demo executes the command with. */
export const PARAMS = { position: 40 };

/** Makes a connection, a heating valve with its sensors, a room sensor, and a command of the valve. */
export async function makeDemoSite(api: JsonClient): Promise<DemoSite> {
  const connectionId = idOf(await api.call('ConnectionService/CreateConnection', { connectorId: 'gateway', name: 'Boiler room' }));
  const deviceId = idOf(await api.call('DigitalDeviceService/CreateDigitalDevice', { name: 'Heating valve', physicalDevice: { clientDeviceId: 'valve-1', connectionId } }));
  await api.call('DigitalDeviceService/CreateDigitalDevice', { name: 'Office air', physicalDevice: { clientDeviceId: 'room-1', connectionId } });
  const [positionSensorId] = await mapSensors(api, deviceId, { position: 'valve_position', temperature: 'temperature' });
  const commandId = idOf(await api.call('ActuatorCommandService/CreateCommand', { id: deviceId, command: setPosition(positionSensorId) }));
  return { connectionId, deviceId, commandId };
}

/** The command, which has had its effect when the sensor shows the position. */
function setPosition(sensorId: string | undefined): Json {
  return {
    name: 'Set position',
    mode: 'encoded',
    customEncoder: ENCODER,
    paramsSchema: { position: { type: 'number', min: 0, max: 100 } },
    verificationStrategy: 'wait_next_uplink',
    expectedSensorStates: [{ sensorId, valueTemplate: '{{params.position}}' }],
    convergenceTimeout: 60,
  };
}

/** Attaches a sensor for each path of an uplink, by the name of the measured thing. Returns their ids in the same order. */
async function mapSensors(api: JsonClient, id: string, names: Readonly<Record<string, string>>): Promise<string[]> {
  const templates = (await api.call('SensorTemplateService/ListSensorTemplates', {}))['sensorTemplates'] as Json[];
  const sensorTemplateIds = Object.values(names).map((name) => idOf(templates.find((template) => template['keyName'] === name) ?? {}));
  const device = await api.call('DigitalDeviceService/AddSensorsToDevice', { id, sensorTemplateIds });
  const sensorIds = (device['sensors'] as Json[]).map(idOf);
  await api.call('DigitalDeviceService/SetSensorMappings', { id, mappings: Object.keys(names).map((sourcePath, at) => ({ sensorId: sensorIds[at], sourcePath })) });
  return sensorIds;
}

function idOf(record: Json): string {
  return record['id'] as string;
}
