import { DataSendingIntervalUnit, type CreateDigitalDeviceRequest, type DigitalDevice, type Image, type ImageInput as ImageInputMessage, type ListDigitalDevicesRequest, type ListDigitalDevicesResponse, type PhysicalDevice as PhysicalDeviceMessage, type UpdateDigitalDeviceRequest } from '../gen/digitaldevice/v2/digital_device_service';
import type { Violation } from '../kernel/errors';
import { etagOf } from '../kernel/etags';
import { fromTimestamp, optionalTimestamp, toTimestamp } from '../kernel/timestamps';
import { imageListViolations, type DeviceImage, type ImageInput, type MediaLinks } from '../media';
import type { DataSendingInterval, Device, IntervalUnit, ListedDevice, PhysicalDevice } from './device';
import type { DeviceChange, DevicePage, DeviceQuery, NewDevice } from './deviceService';

const UNIT_TO_WIRE: Readonly<Record<IntervalUnit, DataSendingIntervalUnit>> = {
  minute: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_MINUTE,
  hour: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_HOUR,
  day: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_DAY,
  week: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_WEEK,
  month: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_MONTH,
};
const UNITS = Object.keys(UNIT_TO_WIRE) as IntervalUnit[];

/** Makes the links by which browsers get pictures. */
export type ImageLinks = Pick<MediaLinks, 'of'>;

/** A device in full. */
export function deviceToMessage(device: Device, links: ImageLinks): DigitalDevice {
  const { dataSendingInterval, lastSeenAt, physicalDevice } = device;
  return {
    id: device.id,
    name: device.name,
    organizationId: device.organizationId,
    lastSeen: optionalTimestamp(lastSeenAt),
    physicalDevice: physicalDevice && physicalDeviceToMessage(physicalDevice),
    sensors: device.sensors.map((sensor) => ({ id: sensor.id, sensorTemplateId: sensor.sensorTemplateId, createdAt: toTimestamp(sensor.createdAt), updatedAt: toTimestamp(sensor.updatedAt) })),
    images: device.images.map((image) => imageToMessage(image, links.of(device.organizationId, image.id))),
    dataSendingInterval: intervalToMessage(dataSendingInterval),
    createdAt: toTimestamp(device.createdAt),
    updatedAt: toTimestamp(device.updatedAt),
    etag: etagOf(device.revision),
  };
}

function imageToMessage(image: DeviceImage, { url, thumbnailUrl }: ReturnType<ImageLinks['of']>): Image {
  const { id, filename, contentType, isCover, position, sizeBytes } = image;
  return { id, filename, contentType, url, isCover, position, sizeBytes, createdAt: toTimestamp(image.createdAt), thumbnailUrl };
}

function physicalDeviceToMessage(physicalDevice: PhysicalDevice): PhysicalDeviceMessage {
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
  };
}

/** One page of devices in the list shape. */
export function devicePageToMessage(page: DevicePage): ListDigitalDevicesResponse {
  return { devices: page.devices.map(listedToMessage), total: page.total, nextPageToken: page.nextPageToken };
}

function listedToMessage(device: ListedDevice): DigitalDevice {
  const { lastSeenAt, physicalDevice } = device;
  return {
    id: device.id,
    name: device.name,
    organizationId: device.organizationId,
    lastSeen: optionalTimestamp(lastSeenAt),
    physicalDevice: physicalDevice && { ...physicalDevice, configuration: undefined, sensorMappings: [], createdAt: undefined, updatedAt: undefined },
    sensors: device.sensors.map((sensor) => ({ id: sensor.id, sensorTemplateId: sensor.sensorTemplateId, createdAt: undefined, updatedAt: undefined })),
    images: [],
    dataSendingInterval: intervalToMessage(device.dataSendingInterval),
    createdAt: toTimestamp(device.createdAt),
    updatedAt: toTimestamp(device.updatedAt),
    etag: '',
  };
}

/** What to list. */
export function deviceQueryFromMessage(request: ListDigitalDevicesRequest): DeviceQuery {
  const { limit, offset, search = '', pageToken, lastSeenBefore } = request;
  return { limit, offset, search, pageToken, lastSeenBefore: lastSeenBefore && fromTimestamp(lastSeenBefore) };
}

/** What to create. */
export function newDeviceFromMessage(request: CreateDigitalDeviceRequest): NewDevice {
  return { name: request.name, physicalDevice: request.physicalDevice, images: request.images.map(imageFromMessage) };
}

/** What to change. */
export function deviceChangeFromMessage(request: UpdateDigitalDeviceRequest): DeviceChange {
  const { physicalDevice } = request;
  return {
    name: request.name,
    physicalDevice: request.unbindPhysicalDevice ? null : physicalDevice && { clientDeviceId: physicalDevice.clientDeviceId, connectionId: physicalDevice.connectionId, configuration: physicalDevice.configuration },
    dataSendingInterval: request.clearDataSendingInterval ? null : intervalFromMessage(request.dataSendingInterval),
    images: request.clearImages || request.images.length > 0 ? request.images.map(imageFromMessage) : undefined,
  };
}

/** A picture to show. */
export function imageFromMessage({ mediaId, isCover, position }: ImageInputMessage): ImageInput {
  return { mediaId, isCover, position };
}

function intervalToMessage(interval: DataSendingInterval | undefined): DigitalDevice['dataSendingInterval'] {
  return interval && { unit: UNIT_TO_WIRE[interval.unit], value: interval.value };
}

function intervalFromMessage(interval: UpdateDigitalDeviceRequest['dataSendingInterval']): DataSendingInterval | undefined {
  const unit = UNITS.find((name) => UNIT_TO_WIRE[name] === interval?.unit);
  return interval && unit && { unit, value: interval.value };
}

/** Offset and page token are two ways to say the same. */
export function checkListRequest(request: ListDigitalDevicesRequest): Violation[] {
  return request.offset && request.pageToken ? [{ field: 'offset', description: 'goes not together with pageToken; give one of them' }] : [];
}

/** A device has one cover, and shows a picture once. */
export function checkImages({ images }: { readonly images: readonly ImageInputMessage[] }): Violation[] {
  return imageListViolations(images.map(imageFromMessage));
}

/** A field cannot be removed and set at once. */
export function checkUpdateRequest(request: UpdateDigitalDeviceRequest): Violation[] {
  const violations = checkImages(request);
  if (request.unbindPhysicalDevice && request.physicalDevice) violations.push({ field: 'unbindPhysicalDevice', description: 'goes not together with physicalDevice; give one of them' });
  if (request.clearDataSendingInterval && request.dataSendingInterval) violations.push({ field: 'clearDataSendingInterval', description: 'goes not together with dataSendingInterval; give one of them' });
  if (request.clearImages && request.images.length > 0) violations.push({ field: 'clearImages', description: 'goes not together with images; give one of them' });
  return violations;
}
