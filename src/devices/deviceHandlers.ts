import type { CreateDigitalDeviceRequest, DigitalDevice, DigitalDeviceServiceServer, ImageInput } from '../gen/digitaldevice/v2/digital_device_service';
import { repeated } from '../kernel/repeated';
import { checked, referring, type HandlersOf, type References } from '../rpc/handlers';
import { checkMappings, MOST_SENSORS, type Device } from './device';
import { checkImages, checkListRequest, checkUpdateRequest, deviceChangeFromMessage, devicePageToMessage, deviceQueryFromMessage, deviceToMessage, imageFromMessage, newDeviceFromMessage, type ImageLinks } from './deviceMessages';
import type { DeviceService } from './deviceService';
import type { SensorService } from './sensorService';

/** What this room answers of DigitalDeviceService; GetConnectorKeys stands in telemetry, and profiles in their own room. */
export type DigitalDeviceHandlers = Omit<HandlersOf<DigitalDeviceServiceServer>, 'getConnectorKeys' | 'getDeviceProfileTemplate' | 'listDeviceProfiles'>;

// As many as the proto allows: of a list that is too long the rest is not looked at.
const MOST_ADDED = 100;
const MOST_IMAGES = 50;

/** Devices, and the sensors on them. */
export function digitalDeviceHandlers(devices: DeviceService, sensors: SensorService, links: ImageLinks): DigitalDeviceHandlers {
  const message = (device: Device): DigitalDevice => deviceToMessage(device, links);
  const messages = new WeakMap<Device, DigitalDevice>();
  // A device that did not change is the same object as before. Links to pictures change by themselves.
  const again = (device: Device): DigitalDevice => {
    if (device.images.length > 0) return message(device);
    const known = messages.get(device) ?? repeated(message(device));
    messages.set(device, known);
    return known;
  };
  const images = imageReferences(devices);
  return {
    listDigitalDevices: checked(checkListRequest, async (request, context) => {
      const page = await devices.list(context.organizationId, deviceQueryFromMessage(request), context.principal.reach?.devices);
      return devicePageToMessage(page);
    }),
    createDigitalDevice: checked<CreateDigitalDeviceRequest, DigitalDevice>(checkImages, async (request, context) => {
      const device = await devices.create(context.organizationId, newDeviceFromMessage(request));
      return message(device);
    }, images),
    getDigitalDevice: async (request, context) => again(await devices.get(context.organizationId, request.id)),
    updateDigitalDevice: checked(checkUpdateRequest, async (request, context) => {
      const device = await devices.update(context.organizationId, request.id, deviceChangeFromMessage(request), request.etag, context.principal.reach?.devices);
      return message(device);
    }, images),
    deleteDigitalDevice: async (request, context) => {
      await devices.delete(context.organizationId, request.id, request.etag, context.principal.reach?.devices);
      return {};
    },
    addSensorsToDevice: referring(
      async (request, context) => {
        const device = await sensors.add(context.organizationId, request.id, request.sensorTemplateIds, context.principal.reach?.devices);
        return message(device);
      },
      async (request, context) => await sensors.checkAdded(context.organizationId, request.id, request.sensorTemplateIds.slice(0, MOST_ADDED)),
    ),
    removeSensorsFromDevice: referring(
      async (request, context) => {
        const device = await sensors.remove(context.organizationId, request.id, request.sensorIds, context.principal.reach?.devices);
        return message(device);
      },
      async (request, context) => await sensors.checkOwn(context.organizationId, request.id, request.sensorIds.slice(0, MOST_SENSORS), 'removed'),
    ),
    updateDeviceSensor: async (request, context) => {
      const device = await sensors.setTemplate(context.organizationId, request.id, request.sensorId, request.sensorTemplateId, context.principal.reach?.devices);
      return message(device);
    },
    setSensorMappings: checked(
      ({ mappings }) => checkMappings(mappings),
      async (request, context) => {
        const device = await sensors.setMappings(context.organizationId, request.id, request.mappings, context.principal.reach?.devices);
        return message(device);
      },
      async (request, context) => {
        const sensorIds = request.mappings.slice(0, MOST_SENSORS).map(({ sensorId }) => sensorId);
        return await sensors.checkOwn(context.organizationId, request.id, sensorIds, 'mapped');
      },
    ),
  };
}

function imageReferences(devices: DeviceService): References<{ images: ImageInput[] }> {
  return async ({ images }, context) => await devices.checkImages(context.organizationId, images.slice(0, MOST_IMAGES).map(imageFromMessage), context.principal.reach?.devices);
}
