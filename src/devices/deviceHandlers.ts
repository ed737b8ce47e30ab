import type {
  CreateDigitalDeviceRequest,
  DigitalDevice,
  DigitalDeviceServiceServer,
  ImageInput,
} from '../gen/digitaldevice/v2/digital_device_service';
import { markCacheable } from '../kernel/cacheableResponse';
import { withCheck, withReferences, type HandlersOf, type References } from '../api/pipeline/handlers';
import { MAX_SENSORS_PER_DEVICE, type Device } from './device';
import {
  checkImages,
  checkListRequest,
  checkMappingsRequest,
  checkUpdateRequest,
  deviceChangeFromMessage,
  devicePageToMessage,
  deviceQueryFromMessage,
  deviceToMessage,
  imageFromMessage,
  newDeviceFromMessage,
  type ImageLinks,
} from './deviceMessages';
import type { DeviceService } from './deviceService';
import type { SensorService } from './sensorService';

/**
 * The methods of DigitalDeviceService that this module implements. GetConnectorKeys is in telemetry; profiles have
 * their own module.
 */
type DigitalDeviceHandlers = Omit<
  HandlersOf<DigitalDeviceServiceServer>,
  'getConnectorKeys' | 'getDeviceProfileTemplate' | 'listDeviceProfiles'
>;

// The maximum of the proto. Items beyond it are not checked.
const MAX_ADDED_SENSORS = 100;
const MAX_IMAGES = 50;

/**
 * Handlers for devices and their sensors. `context.principal.resourceScope` is the part of the organization that a
 * restricted key may access, undefined for other keys. Lists are limited to it; changes pass it on, so that a key
 * cannot move a device out of its own access. `withCheck` adds rules beyond those of the proto; `withReferences` names
 * the resources in a request whose access is checked before the handler runs.
 */
export function digitalDeviceHandlers(
  devices: DeviceService,
  sensors: SensorService,
  links: ImageLinks,
): DigitalDeviceHandlers {
  const toMessage = (device: Device): DigitalDevice => deviceToMessage(device, links);
  const cachedMessages = new WeakMap<Device, DigitalDevice>();
  // An unchanged device is the same object, so its message is reused unless it has image links, which expire.
  const toCachedMessage = (device: Device): DigitalDevice => {
    if (device.images.length > 0) return toMessage(device);
    const cached = cachedMessages.get(device) ?? markCacheable(toMessage(device));
    cachedMessages.set(device, cached);
    return cached;
  };
  const checkImageReferences = createImageCheck(devices);
  return {
    listDigitalDevices: withCheck(checkListRequest, async (request, context) => {
      const page = await devices.list(
        context.organizationId,
        deviceQueryFromMessage(request),
        context.principal.resourceScope?.devices,
      );
      return devicePageToMessage(page);
    }),
    createDigitalDevice: withCheck<CreateDigitalDeviceRequest, DigitalDevice>(
      checkImages,
      async (request, context) => {
        const device = await devices.create(context.organizationId, newDeviceFromMessage(request));
        return toMessage(device);
      },
      checkImageReferences,
    ),
    getDigitalDevice: async (request, context) =>
      toCachedMessage(await devices.cache.get(context.organizationId, request.id)),
    updateDigitalDevice: withCheck(
      checkUpdateRequest,
      async (request, context) => {
        const device = await devices.update(
          context.organizationId,
          request.id,
          deviceChangeFromMessage(request),
          request.etag,
          context.principal.resourceScope?.devices,
        );
        return toMessage(device);
      },
      checkImageReferences,
    ),
    deleteDigitalDevice: async (request, context) => {
      const dashboardCount = await devices.delete(
        context.organizationId,
        request.id,
        request.etag,
        context.principal.resourceScope?.devices,
      );
      return { dashboardCount: dashboardCount || undefined };
    },
    addSensorsToDevice: withReferences(
      async (request, context) => {
        const device = await sensors.add(
          context.organizationId,
          request.id,
          request.sensorTemplateIds,
          context.principal.resourceScope?.devices,
        );
        return toMessage(device);
      },
      async (request, context) =>
        await sensors.checkAdded(
          context.organizationId,
          request.id,
          request.sensorTemplateIds.slice(0, MAX_ADDED_SENSORS),
        ),
    ),
    removeSensorsFromDevice: withReferences(
      async (request, context) => {
        const { device, dashboardCount } = await sensors.remove(
          context.organizationId,
          request.id,
          request.sensorIds,
          context.principal.resourceScope?.devices,
        );
        return { ...toMessage(device), dashboardCount: dashboardCount || undefined };
      },
      async (request, context) =>
        await sensors.checkSensors(
          context.organizationId,
          request.id,
          request.sensorIds.slice(0, MAX_SENSORS_PER_DEVICE),
          'removed',
        ),
    ),
    updateDeviceSensor: async (request, context) => {
      const device = await sensors.setTemplate(
        context.organizationId,
        request.id,
        request.sensorId,
        request.sensorTemplateId,
        context.principal.resourceScope?.devices,
      );
      return toMessage(device);
    },
    setSensorMappings: withCheck(
      checkMappingsRequest,
      async (request, context) => {
        const device = await sensors.setMappings(
          context.organizationId,
          request.id,
          request.mappings,
          context.principal.resourceScope?.devices,
        );
        return toMessage(device);
      },
      async (request, context) => {
        const sensorIds = request.mappings.slice(0, MAX_SENSORS_PER_DEVICE).map(({ sensorId }) => sensorId);
        return await sensors.checkSensors(context.organizationId, request.id, sensorIds, 'mapped');
      },
    ),
  };
}

/** Creates the check of the images that a request refers to. */
function createImageCheck(devices: DeviceService): References<{ images: ImageInput[] }> {
  return async ({ images }, context) =>
    await devices.checkImages(
      context.organizationId,
      images.slice(0, MAX_IMAGES).map(imageFromMessage),
      context.principal.resourceScope?.devices,
    );
}
