import { Connection, CreateConnectionRequest } from '../../src/gen/connection/connection_service';
import { AddSensorsToDeviceRequest, CreateDigitalDeviceRequest, DigitalDevice, SetSensorMappingsRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { ListSensorTemplatesRequest, ListSensorTemplatesResponse } from '../../src/gen/sensor_template/v2/sensor_template_service';
import { once, run } from './load';
import type { Key, PlantroomServer } from './plantroomServer';

/** The service of devices, as a path. */
export const DEVICES = '/digitaldevice.v2.DigitalDeviceService';

/** Fills an organization with bound devices through the API, 64 calls at once; every hundredth is a `Boiler`. */
export async function fill(server: PlantroomServer, key: Key, count: number, progress: (text: string) => void): Promise<void> {
  const connectionId = await connection(server, key);
  const started = performance.now();
  const made = await run({
    ...target(server, key, `${DEVICES}/CreateDigitalDevice`),
    concurrency: 64,
    calls: count,
    message: (n) => CreateDigitalDeviceRequest.encode(CreateDigitalDeviceRequest.fromPartial({
      name: `${n % 100 === 0 ? 'Boiler' : 'Valve'} ${String(n).padStart(6, '0')}`,
      physicalDevice: { clientDeviceId: `client-${n}`, connectionId },
    })).finish(),
  });
  if (made.failed > 0) throw new Error(`${made.failed} of ${count} devices were not created`);
  progress(`${count} devices created in ${((performance.now() - started) / 1000).toFixed(1)} s (${made.perSecond.toFixed(0)}/s, each on disk)`);
}

/** One device with a binding, three sensors and three mappings; its id. */
export async function richDevice(server: PlantroomServer, key: Key): Promise<string> {
  const connectionId = await connection(server, key, 'Rich');
  const device = DigitalDevice.decode(await ask(server, key, `${DEVICES}/CreateDigitalDevice`, CreateDigitalDeviceRequest.encode(CreateDigitalDeviceRequest.fromPartial({
    name: 'Heating valve 17',
    physicalDevice: { clientDeviceId: 'valve-17', connectionId, configuration: { room: '17' } },
  })).finish()));
  const templates = ListSensorTemplatesResponse.decode(await ask(server, key, '/sensor_template.v2.SensorTemplateService/ListSensorTemplates', ListSensorTemplatesRequest.encode(ListSensorTemplatesRequest.fromPartial({})).finish()));
  const sensorTemplateIds = templates.sensorTemplates.slice(0, 3).map((template) => template.id);
  const withSensors = DigitalDevice.decode(await ask(server, key, `${DEVICES}/AddSensorsToDevice`, AddSensorsToDeviceRequest.encode(AddSensorsToDeviceRequest.fromPartial({ id: device.id, sensorTemplateIds })).finish()));
  const paths = ['data.temperature', 'data.position', 'data.battery'];
  const mappings = withSensors.sensors.map((sensor, at) => ({ sensorId: sensor.id, sourcePath: paths[at] as string }));
  await ask(server, key, `${DEVICES}/SetSensorMappings`, SetSensorMappingsRequest.encode(SetSensorMappingsRequest.fromPartial({ id: device.id, mappings })).finish());
  return device.id;
}

/** What a load on this server and method needs. */
export function target(server: PlantroomServer, key: Key, path: string): { url: string; ca: Buffer | undefined; path: string; headers: Record<string, string> } {
  return { url: server.url, ca: server.ca, path, headers: server.headers(key) };
}

/** A connection for gateway software with the usual policy; its id. */
export async function connection(server: PlantroomServer, key: Key, name = 'Gateway'): Promise<string> {
  const answer = await ask(server, key, '/connection.ConnectionService/CreateConnection', CreateConnectionRequest.encode(CreateConnectionRequest.fromPartial({ connectorId: 'gateway', name })).finish());
  return Connection.decode(answer).id;
}

/** The bytes of the answer to one call. Throws if it was refused. */
export async function ask(server: PlantroomServer, key: Key, path: string, message: Uint8Array): Promise<Buffer> {
  const answer = await once(target(server, key, path), message);
  if (!answer) throw new Error(`${path} was refused`);
  return answer;
}
