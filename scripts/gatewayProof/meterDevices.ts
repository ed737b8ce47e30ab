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
import { callUnary, type Clients } from '../crash/clients';

/** A device that sends uplinks without a command. */
export interface MeterDevice {
  readonly clientDeviceId: string;
  readonly sensorId: string;
}

/** Creates meters on a connection. */
export async function createMeters(
  { devices, templates, metadata }: Clients,
  connectionId: string,
  count: number,
): Promise<MeterDevice[]> {
  const { sensorTemplates } = await callUnary<ListSensorTemplatesResponse>((callback) =>
    templates.listSensorTemplates(ListSensorTemplatesRequest.fromPartial({}), metadata, callback),
  );
  const template = sensorTemplates.find(({ keyName }) => keyName === 'valve_position')?.id ?? '';
  const createMeter = async (n: number): Promise<MeterDevice> => {
    const clientDeviceId = `meter-${n}`;
    const create = CreateDigitalDeviceRequest.fromPartial({
      name: `Meter ${n}`,
      physicalDevice: { clientDeviceId, connectionId },
    });
    const { id } = await callUnary<DigitalDevice>((callback) =>
      devices.createDigitalDevice(create, metadata, callback),
    );
    const add = AddSensorsToDeviceRequest.fromPartial({ id, sensorTemplateIds: [template] });
    const { sensors } = await callUnary<DigitalDevice>((callback) =>
      devices.addSensorsToDevice(add, metadata, callback),
    );
    const sensorId = sensors[0]?.id ?? '';
    await callUnary((callback) =>
      devices.setSensorMappings(
        SetSensorMappingsRequest.fromPartial({ id, mappings: [{ sensorId, sourcePath: 'position' }] }),
        metadata,
        callback,
      ),
    );
    return { clientDeviceId, sensorId };
  };
  return await Promise.all(Array.from({ length: count }, async (_, n) => await createMeter(n)));
}
