import {
  DataSendingIntervalUnit,
  type CreateDigitalDeviceRequest,
  type DigitalDevice,
  type Image,
  type ImageInput as ImageInputMessage,
  type ListDigitalDevicesRequest,
  type ListDigitalDevicesResponse,
  type SetSensorMappingsRequest,
  type PhysicalDevice as PhysicalDeviceMessage,
  type UpdateDigitalDeviceRequest,
} from '../gen/digitaldevice/v2/digital_device_service';
import type { Violation } from '../kernel/errors';
import { getEtag } from '../kernel/etags';
import { fromTimestamp, optionalTimestamp, toTimestamp } from '../kernel/timestamps';
import { checkImageList, type DeviceImage, type ImageInput, type MediaLinks } from '../media';
import {
  checkMappings,
  type DataSendingInterval,
  type Device,
  type IntervalUnit,
  type ListedDevice,
  type PhysicalDevice,
} from './device';
import type { DeviceChange, DevicePage, DeviceQuery, NewDevice } from './deviceService';

const UNIT_TO_WIRE: Readonly<Record<IntervalUnit, DataSendingIntervalUnit>> = {
  minute: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_MINUTE,
  hour: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_HOUR,
  day: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_DAY,
  week: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_WEEK,
  month: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_MONTH,
};
const UNITS = Object.keys(UNIT_TO_WIRE) as IntervalUnit[];

/** Creates the links that browsers use to load images. */
export type ImageLinks = Pick<MediaLinks, 'createLinks'>;

/** Converts a device to its proto message. */
export function deviceToMessage(device: Device, links: ImageLinks): DigitalDevice {
  const { dataSendingInterval, lastSeenAt, physicalDevice } = device;
  return {
    id: device.id,
    name: device.name,
    organizationId: device.organizationId,
    lastSeen: optionalTimestamp(lastSeenAt),
    physicalDevice: physicalDevice && physicalDeviceToMessage(physicalDevice),
    sensors: device.sensors.map((sensor) => ({
      id: sensor.id,
      sensorTemplateId: sensor.sensorTemplateId,
      createdAt: toTimestamp(sensor.createdAt),
      updatedAt: toTimestamp(sensor.updatedAt),
    })),
    images: device.images.map((image) => imageToMessage(image, links.createLinks(device.organizationId, image.id))),
    dataSendingInterval: dataSendingInterval && {
      unit: UNIT_TO_WIRE[dataSendingInterval.unit],
      value: dataSendingInterval.value,
    },
    createdAt: toTimestamp(device.createdAt),
    updatedAt: toTimestamp(device.updatedAt),
    etag: getEtag(device.revision),
  };
}

function imageToMessage(image: DeviceImage, { url, thumbnailUrl }: ReturnType<ImageLinks['createLinks']>): Image {
  const { id, filename, contentType, isCover, position, sizeBytes } = image;
  return {
    id,
    filename,
    contentType,
    url,
    isCover,
    position,
    sizeBytes,
    createdAt: toTimestamp(image.createdAt),
    thumbnailUrl,
  };
}

function physicalDeviceToMessage(physicalDevice: PhysicalDevice): PhysicalDeviceMessage {
  const { lastUplinkFailure: failure, lastDecoderWarnings: warnings } = physicalDevice;
  return {
    id: physicalDevice.id,
    clientDeviceId: physicalDevice.clientDeviceId,
    connectionId: physicalDevice.connectionId,
    configuration: physicalDevice.configuration,
    sensorMappings: physicalDevice.sensorMappings.map((mapping) => ({
      id: mapping.id,
      sensorId: mapping.sensorId,
      sourcePath: mapping.sourcePath,
      createdAt: toTimestamp(mapping.createdAt),
      updatedAt: toTimestamp(mapping.updatedAt),
    })),
    createdAt: toTimestamp(physicalDevice.createdAt),
    updatedAt: toTimestamp(physicalDevice.updatedAt),
    lastUplinkFailure: failure && {
      time: toTimestamp(Math.floor(failure.receivedAt)),
      reason: failure.reason,
      resolved: failure.isResolved,
    },
    lastDecoderWarnings: warnings && {
      time: toTimestamp(Math.floor(warnings.receivedAt)),
      warnings: [...warnings.warnings],
    },
  };
}

/** Converts one page of devices to its proto message. */
export function devicePageToMessage(page: DevicePage): ListDigitalDevicesResponse {
  return { devices: page.devices.map(listedDeviceToMessage), total: page.total, nextPageToken: page.nextPageToken };
}

/** Converts a device to the list form of its proto message: fields that are not read for a list stay empty. */
function listedDeviceToMessage(device: ListedDevice): DigitalDevice {
  const { lastSeenAt, physicalDevice } = device;
  return {
    id: device.id,
    name: device.name,
    organizationId: device.organizationId,
    lastSeen: optionalTimestamp(lastSeenAt),
    physicalDevice: physicalDevice && {
      ...physicalDevice,
      configuration: undefined,
      sensorMappings: [],
      createdAt: undefined,
      updatedAt: undefined,
      lastUplinkFailure: undefined,
      lastDecoderWarnings: undefined,
    },
    sensors: device.sensors.map((sensor) => ({
      id: sensor.id,
      sensorTemplateId: sensor.sensorTemplateId,
      createdAt: undefined,
      updatedAt: undefined,
    })),
    images: [],
    dataSendingInterval: undefined,
    createdAt: toTimestamp(device.createdAt),
    updatedAt: toTimestamp(device.updatedAt),
    etag: '',
  };
}

/** Reads the list query of a request. */
export function deviceQueryFromMessage(request: ListDigitalDevicesRequest): DeviceQuery {
  const { limit, offset, search = '', pageToken, lastSeenBefore } = request;
  return { limit, offset, search, pageToken, lastSeenBefore: lastSeenBefore && fromTimestamp(lastSeenBefore) };
}

/** Reads the device to create from a request. */
export function newDeviceFromMessage(request: CreateDigitalDeviceRequest): NewDevice {
  return { name: request.name, physicalDevice: request.physicalDevice, images: request.images.map(imageFromMessage) };
}

/** Reads the changes from a request. */
export function deviceChangeFromMessage(request: UpdateDigitalDeviceRequest): DeviceChange {
  const { physicalDevice } = request;
  return {
    name: request.name,
    physicalDevice: request.unbindPhysicalDevice
      ? null
      : physicalDevice && {
          clientDeviceId: physicalDevice.clientDeviceId,
          connectionId: physicalDevice.connectionId,
          configuration: physicalDevice.configuration,
        },
    dataSendingInterval: request.clearDataSendingInterval ? null : intervalFromMessage(request.dataSendingInterval),
    images: request.clearImages || request.images.length > 0 ? request.images.map(imageFromMessage) : undefined,
  };
}

/** An image to attach to a device. */
export function imageFromMessage({ mediaId, isCover, position }: ImageInputMessage): ImageInput {
  return { mediaId, isCover, position };
}

/** Reads an interval; undefined if there is none, or if its unit is unknown. */
function intervalFromMessage(
  interval: UpdateDigitalDeviceRequest['dataSendingInterval'],
): DataSendingInterval | undefined {
  const unit = UNITS.find((name) => UNIT_TO_WIRE[name] === interval?.unit);
  return interval && unit && { unit, value: interval.value };
}

/** Offset and page token exclude each other. */
export function checkListRequest(request: ListDigitalDevicesRequest): Violation[] {
  return request.offset && request.pageToken
    ? [{ field: 'offset', description: 'cannot be combined with pageToken: set only one of them' }]
    : [];
}

/** Requires clearMappings to remove all mappings: a client that lost its list must not empty the device. */
export function checkMappingsRequest({ mappings, clearMappings }: SetSensorMappingsRequest): Violation[] {
  if (clearMappings && mappings.length > 0) {
    return [{ field: 'clearMappings', description: 'cannot be combined with mappings: set only one of them' }];
  }
  if (!clearMappings && mappings.length === 0) {
    return [{ field: 'mappings', description: 'must not be empty: set clearMappings to remove all mappings' }];
  }
  return checkMappings(mappings);
}

/** A device has one cover and shows each image once. */
export function checkImages({ images }: { readonly images: readonly ImageInputMessage[] }): Violation[] {
  return checkImageList(images.map(imageFromMessage));
}

/** A field cannot be removed and set in one request. */
export function checkUpdateRequest(request: UpdateDigitalDeviceRequest): Violation[] {
  const violations = checkImages(request);
  if (request.unbindPhysicalDevice && request.physicalDevice)
    violations.push({
      field: 'unbindPhysicalDevice',
      description: 'cannot be combined with physicalDevice: set only one of them',
    });
  if (request.clearDataSendingInterval && request.dataSendingInterval)
    violations.push({
      field: 'clearDataSendingInterval',
      description: 'cannot be combined with dataSendingInterval: set only one of them',
    });
  if (request.clearImages && request.images.length > 0)
    violations.push({ field: 'clearImages', description: 'cannot be combined with images: set only one of them' });
  return violations;
}
