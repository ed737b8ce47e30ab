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
import { callMethod, DEVICES } from './fleet';
import type { PlantroomServer } from './plantroomServer';

/** The number of sensors per device, each with a mapping. */
export const SENSORS = 5;

/** A device that publishes. */
export interface SensingDevice {
  readonly clientDeviceId: string;
  /** The sensor whose value is the number of the uplink. */
  readonly counter: string;
  readonly sensors: readonly string[];
}

/** Devices behind a broker. */
export interface UplinkSite {
  readonly server: PlantroomServer;
  readonly connectionId: string;
  readonly devices: readonly SensingDevice[];
  readonly sending: Sending;
}

/** The payloads of the devices. */
export interface Sending {
  /** Returns the payload of uplink number `n`. */
  readonly payload: (n: number) => string | Buffer;
  /** The field that contains the decoded values. */
  readonly valuesField: string;
  /** The configuration of each physical device. */
  readonly configuration?: Readonly<Record<string, unknown>>;
}

/** Values that are already decoded. */
export const JSON_VALUES: Sending = {
  valuesField: 'data',
  payload: (n) =>
    JSON.stringify({ data: { s0: n, s1: 20 + (n % 70) / 10, s2: 1013 + (n % 13), s3: -n / 3, s4: n % 2 } }),
};

/** Creates a connection to the broker with `count` devices through the API. */
export async function createUplinkSite(
  server: PlantroomServer,
  brokerUrl: string,
  count: number,
  sending = JSON_VALUES,
): Promise<UplinkSite> {
  const configuration = { url: brokerUrl, uplinkTopic: 'bench/{clientDeviceId}/up' };
  const request = CreateConnectionRequest.encode(
    CreateConnectionRequest.fromPartial({ connectorId: 'mqtt', name: `Broker with ${count}`, configuration }),
  ).finish();
  const connectionId = Connection.decode(
    await callMethod(server, server.key, '/connection.ConnectionService/CreateConnection', request),
  ).id;
  return {
    server,
    connectionId,
    devices: await createSensingDevices(server, connectionId, count, 'meter', sending),
    sending,
  };
}

/** Creates `count` devices with mapped sensors on a connection. `name`: the prefix of their client device ids. */
export async function createSensingDevices(
  server: PlantroomServer,
  connectionId: string,
  count: number,
  name: string,
  sending = JSON_VALUES,
): Promise<readonly SensingDevice[]> {
  const list = ListSensorTemplatesRequest.encode(ListSensorTemplatesRequest.fromPartial({})).finish();
  const { sensorTemplates } = ListSensorTemplatesResponse.decode(
    await callMethod(server, server.key, '/sensor_template.v2.SensorTemplateService/ListSensorTemplates', list),
  );
  const template = sensorTemplates.find(({ valueType }) => valueType === 'number')?.id ?? '';
  const devices: SensingDevice[] = [];
  const worker = async (): Promise<void> => {
    while (devices.length < count) {
      const at = devices.push({ clientDeviceId: '', counter: '', sensors: [] }) - 1;
      devices[at] = await createDevice(server, connectionId, template, `${name}-${at}`, sending);
    }
  };
  await Promise.all(Array.from({ length: Math.min(32, count) }, worker));
  return devices;
}

async function createDevice(
  server: PlantroomServer,
  connectionId: string,
  template: string,
  clientDeviceId: string,
  { valuesField, configuration }: Sending,
): Promise<SensingDevice> {
  const create = CreateDigitalDeviceRequest.encode(
    CreateDigitalDeviceRequest.fromPartial({
      name: clientDeviceId,
      physicalDevice: { clientDeviceId, connectionId, configuration },
    }),
  ).finish();
  const { id } = DigitalDevice.decode(await callMethod(server, server.key, `${DEVICES}/CreateDigitalDevice`, create));
  const add = AddSensorsToDeviceRequest.encode(
    AddSensorsToDeviceRequest.fromPartial({ id, sensorTemplateIds: Array.from({ length: SENSORS }, () => template) }),
  ).finish();
  const sensors = DigitalDevice.decode(
    await callMethod(server, server.key, `${DEVICES}/AddSensorsToDevice`, add),
  ).sensors.map((sensor) => sensor.id);
  const mappings = sensors.map((sensorId, at) => ({ sensorId, sourcePath: `${valuesField}.s${at}` }));
  await callMethod(
    server,
    server.key,
    `${DEVICES}/SetSensorMappings`,
    SetSensorMappingsRequest.encode(SetSensorMappingsRequest.fromPartial({ id, mappings })).finish(),
  );
  return { clientDeviceId, counter: sensors[0] ?? '', sensors };
}
