import type { DigitalDeviceServiceServer } from '../gen/digitaldevice/v2/digital_device_service';
import { checked, type HandlersOf } from '../rpc/handlers';
import { checkMappings } from './device';
import { checkListRequest, checkUpdateRequest, deviceChangeFromMessage, devicePageToMessage, deviceQueryFromMessage, deviceToMessage, newDeviceFromMessage } from './deviceMessages';
import type { DeviceService } from './deviceService';
import type { SensorService } from './sensorService';

/** What this room answers of DigitalDeviceService; GetConnectorKeys stands in telemetry. */
export type DigitalDeviceHandlers = Omit<HandlersOf<DigitalDeviceServiceServer>, 'getConnectorKeys'>;

/** Devices, and the sensors on them. */
export function digitalDeviceHandlers(devices: DeviceService, sensors: SensorService): DigitalDeviceHandlers {
  return {
    listDigitalDevices: checked(checkListRequest, async (request, context) => {
      const page = await devices.list(context.organizationId, deviceQueryFromMessage(request));
      return devicePageToMessage(page);
    }),
    createDigitalDevice: async (request, context) => {
      const device = await devices.create(context.organizationId, newDeviceFromMessage(request));
      return deviceToMessage(device);
    },
    getDigitalDevice: async (request, context) => deviceToMessage(await devices.get(context.organizationId, request.id)),
    updateDigitalDevice: checked(checkUpdateRequest, async (request, context) => {
      const device = await devices.update(context.organizationId, request.id, deviceChangeFromMessage(request), request.etag);
      return deviceToMessage(device);
    }),
    deleteDigitalDevice: async (request, context) => {
      await devices.delete(context.organizationId, request.id, request.etag);
      return {};
    },
    addSensorsToDevice: async (request, context) => {
      const device = await sensors.add(context.organizationId, request.id, request.sensorTemplateIds);
      return deviceToMessage(device);
    },
    removeSensorsFromDevice: async (request, context) => {
      const device = await sensors.remove(context.organizationId, request.id, request.sensorIds);
      return deviceToMessage(device);
    },
    updateDeviceSensor: async (request, context) => {
      const device = await sensors.setTemplate(context.organizationId, request.id, request.sensorId, request.sensorTemplateId);
      return deviceToMessage(device);
    },
    setSensorMappings: checked(
      ({ mappings }) => checkMappings(mappings),
      async (request, context) => {
        const device = await sensors.setMappings(context.organizationId, request.id, request.mappings);
        return deviceToMessage(device);
      },
    ),
  };
}
