import type { Json, JsonClient } from '../call/jsonClient';

/** The resources of the demo. */
export interface DemoSite {
  readonly connectionId: string;
  readonly deviceId: string;
  readonly commandId: string;
}

/** The encoder of the valve, in the format of the simulated valve. */
export const ENCODER =
  'function encodeDownlink(input) {\n  return { bytes: [0x01, input.data.position], fPort: 10 };\n}\n';

/** The parameters of the demo command. */
export const PARAMS = { position: 40 };

/** Creates a connection, a heating valve with its sensors, a room sensor, a command for the valve, and starter dashboards. */
export async function createDemoSite(api: JsonClient): Promise<DemoSite> {
  const connectionId = getId(
    await api.call('ConnectionService/CreateConnection', { connectorId: 'gateway', name: 'Boiler room' }),
  );
  const deviceId = getId(
    await api.call('DigitalDeviceService/CreateDigitalDevice', {
      name: 'Heating valve',
      physicalDevice: { clientDeviceId: 'valve-1', connectionId },
    }),
  );
  await api.call('DigitalDeviceService/CreateDigitalDevice', {
    name: 'Office air',
    physicalDevice: { clientDeviceId: 'room-1', connectionId },
  });
  const [positionSensorId] = await attachSensors(api, deviceId, {
    position: 'valve_position',
    temperature: 'temperature',
  });
  const commandId = getId(
    await api.call('ActuatorCommandService/CreateCommand', {
      id: deviceId,
      command: createSetPositionCommand(positionSensorId),
    }),
  );
  await api.call('DashboardService/CreateStarterDashboards', {});
  return { connectionId, deviceId, commandId };
}

/** The command; its expected effect is that the sensor shows the position. */
function createSetPositionCommand(sensorId: string | undefined): Json {
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

/**
 * Adds a sensor to the device for each path of its uplinks; `keyNames`: the key name of the sensor's template by path.
 * Returns the sensor ids in the same order.
 */
async function attachSensors(
  api: JsonClient,
  deviceId: string,
  keyNames: Readonly<Record<string, string>>,
): Promise<string[]> {
  const templates = (await api.call('SensorTemplateService/ListSensorTemplates', {}))['sensorTemplates'] as Json[];
  const sensorTemplateIds = Object.values(keyNames).map((keyName) =>
    getId(templates.find((template) => template['keyName'] === keyName) ?? {}),
  );
  const device = await api.call('DigitalDeviceService/AddSensorsToDevice', { id: deviceId, sensorTemplateIds });
  const sensorIds = (device['sensors'] as Json[]).map(getId);
  await api.call('DigitalDeviceService/SetSensorMappings', {
    id: deviceId,
    mappings: Object.keys(keyNames).map((sourcePath, index) => ({ sensorId: sensorIds[index], sourcePath })),
  });
  return sensorIds;
}

function getId(record: Json): string {
  return record['id'] as string;
}
