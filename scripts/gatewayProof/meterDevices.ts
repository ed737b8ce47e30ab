import { AddSensorsToDeviceRequest, CreateDigitalDeviceRequest, type DigitalDevice, SetSensorMappingsRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { ListSensorTemplatesRequest, type ListSensorTemplatesResponse } from '../../src/gen/sensor_template/v2/sensor_template_service';
import { answer, type Clients } from '../crash/clients';

/** A device that sends uplinks by itself. */
export interface MeterDevice {
  readonly clientDeviceId: string;
  readonly sensorId: string;
}

/** Makes some of them on a connection. */
export async function makeMeters({ devices, templates, metadata }: Clients, connectionId: string, count: number): Promise<MeterDevice[]> {
  const { sensorTemplates } = await answer<ListSensorTemplatesResponse>((answered) => templates.listSensorTemplates(ListSensorTemplatesRequest.fromPartial({}), metadata, answered));
  const template = sensorTemplates.find(({ keyName }) => keyName === 'valve_position')?.id ?? '';
  const makeOne = async (n: number): Promise<MeterDevice> => {
    const clientDeviceId = `meter-${n}`;
    const create = CreateDigitalDeviceRequest.fromPartial({ name: `Meter ${n}`, physicalDevice: { clientDeviceId, connectionId } });
    const { id } = await answer<DigitalDevice>((answered) => devices.createDigitalDevice(create, metadata, answered));
    const add = AddSensorsToDeviceRequest.fromPartial({ id, sensorTemplateIds: [template] });
    const { sensors } = await answer<DigitalDevice>((answered) => devices.addSensorsToDevice(add, metadata, answered));
    const sensorId = sensors[0]?.id ?? '';
    await answer((answered) => devices.setSensorMappings(SetSensorMappingsRequest.fromPartial({ id, mappings: [{ sensorId, sourcePath: 'position' }] }), metadata, answered));
    return { clientDeviceId, sensorId };
  };
  return await Promise.all(Array.from({ length: count }, async (_, n) => await makeOne(n)));
}
