import { Connection, CreateConnectionRequest } from '../../src/gen/connection/connection_service';
import {
  AddSensorsToDeviceRequest,
  CreateDigitalDeviceRequest,
  DigitalDevice,
  SetSensorMappingsRequest,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import {
  ListSensorTemplatesRequest,
  ListSensorTemplatesResponse,
} from '../../src/gen/sensor_template/v2/sensor_template_service';
import { callOnce, runLoad } from './load';
import type { Key, PlantroomServer } from './plantroomServer';

/** The path of the device service. */
export const DEVICES = '/digitaldevice.v2.DigitalDeviceService';

/** Creates bound devices through the API with 64 concurrent calls; every hundredth is named `Boiler`. */
export async function createDevices(
  server: PlantroomServer,
  key: Key,
  count: number,
  progress: (text: string) => void,
): Promise<void> {
  const connectionId = await createConnection(server, key);
  const started = performance.now();
  const result = await runLoad({
    ...toLoadTarget(server, key, `${DEVICES}/CreateDigitalDevice`),
    concurrency: 64,
    calls: count,
    message: (n) =>
      CreateDigitalDeviceRequest.encode(
        CreateDigitalDeviceRequest.fromPartial({
          name: `${n % 100 === 0 ? 'Boiler' : 'Valve'} ${String(n).padStart(6, '0')}`,
          physicalDevice: { clientDeviceId: `client-${n}`, connectionId },
        }),
      ).finish(),
  });
  if (result.failed > 0) throw new Error(`${result.failed} of ${count} devices were not created`);
  progress(
    `${count} devices created in ${((performance.now() - started) / 1000).toFixed(1)} s (${result.perSecond.toFixed(0)}/s, each on disk)`,
  );
}

/** Creates a device with a binding, three sensors and three mappings, and returns its id. */
export async function createFullDevice(server: PlantroomServer, key: Key): Promise<string> {
  const connectionId = await createConnection(server, key, 'Rich');
  const device = DigitalDevice.decode(
    await callMethod(
      server,
      key,
      `${DEVICES}/CreateDigitalDevice`,
      CreateDigitalDeviceRequest.encode(
        CreateDigitalDeviceRequest.fromPartial({
          name: 'Heating valve 17',
          physicalDevice: { clientDeviceId: 'valve-17', connectionId, configuration: { room: '17' } },
        }),
      ).finish(),
    ),
  );
  const templates = ListSensorTemplatesResponse.decode(
    await callMethod(
      server,
      key,
      '/sensor_template.v2.SensorTemplateService/ListSensorTemplates',
      ListSensorTemplatesRequest.encode(ListSensorTemplatesRequest.fromPartial({})).finish(),
    ),
  );
  const sensorTemplateIds = templates.sensorTemplates.slice(0, 3).map((template) => template.id);
  const withSensors = DigitalDevice.decode(
    await callMethod(
      server,
      key,
      `${DEVICES}/AddSensorsToDevice`,
      AddSensorsToDeviceRequest.encode(
        AddSensorsToDeviceRequest.fromPartial({ id: device.id, sensorTemplateIds }),
      ).finish(),
    ),
  );
  const paths = ['data.temperature', 'data.position', 'data.battery'];
  const mappings = withSensors.sensors.map((sensor, at) => ({ sensorId: sensor.id, sourcePath: paths[at] as string }));
  await callMethod(
    server,
    key,
    `${DEVICES}/SetSensorMappings`,
    SetSensorMappingsRequest.encode(SetSensorMappingsRequest.fromPartial({ id: device.id, mappings })).finish(),
  );
  return device.id;
}

/** Returns the address, path and headers for a load on a method of this server. */
export function toLoadTarget(
  server: PlantroomServer,
  key: Key,
  path: string,
): { url: string; ca: Buffer | undefined; path: string; headers: Record<string, string> } {
  return { url: server.url, ca: server.ca, path, headers: server.headers(key) };
}

/** Creates a gateway connection with the default policy, and returns its id. */
export async function createConnection(server: PlantroomServer, key: Key, name = 'Gateway'): Promise<string> {
  const response = await callMethod(
    server,
    key,
    '/connection.ConnectionService/CreateConnection',
    CreateConnectionRequest.encode(CreateConnectionRequest.fromPartial({ connectorId: 'gateway', name })).finish(),
  );
  return Connection.decode(response).id;
}

/** Makes one call and returns the bytes of its response. Throws if the call failed. */
export async function callMethod(
  server: PlantroomServer,
  key: Key,
  path: string,
  message: Uint8Array,
): Promise<Buffer> {
  const response = await callOnce(toLoadTarget(server, key, path), message);
  if (!response) throw new Error(`${path} failed`);
  return response;
}
