import { DomainError, validationFailed, type Violation } from '../kernel/errors';
import { truncateForDisplay } from '../kernel/truncate';
import { HOUR_MS } from '../kernel/timeUnits';
import type { DeviceImage } from '../media';
import type { DecoderWarnings, UplinkFailureRecord } from './uplinkReport';
import { formatSourcePath, MAX_SOURCE_PATH_LENGTH, parseSourcePath, SOURCE_PATH_FORM } from './sourcePath';

/** A digital device. Times are Unix milliseconds. */
export interface Device {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  /** When the server last received an uplink of the physical device; undefined before the first one. */
  readonly lastSeenAt: number | undefined;
  /** Undefined if the device is not bound. */
  readonly physicalDevice: PhysicalDevice | undefined;
  /** In attachment order. */
  readonly sensors: readonly Sensor[];
  /** Ordered by position. */
  readonly images: readonly DeviceImage[];
  /** How often the device is expected to send. */
  readonly dataSendingInterval: DataSendingInterval | undefined;
  readonly createdAt: number;
  /** The time of the last change by a call. Uplinks do not change it. */
  readonly updatedAt: number;
  /** The number of changes, starting at 1. The etag is derived from it. */
  readonly revision: number;
}

/** The physical device, as a connection identifies it. */
export interface PhysicalDevice {
  /** A new id for each binding: another device in the field is another physical device. */
  readonly id: string;
  /** Normalized by the connection's connector. */
  readonly clientDeviceId: string;
  readonly connectionId: string;
  /** Connector-specific settings. */
  readonly configuration: Readonly<Record<string, unknown>>;
  readonly sensorMappings: readonly SensorMapping[];
  /** Intervals between the last uplinks in milliseconds, oldest first; at most MAX_UPLINK_GAPS. */
  readonly uplinkGaps: readonly number[];
  /** LoRaWAN: the device class of its last uplink: A, B or C; undefined if it was not reported. */
  readonly reportedClass: string | undefined;
  /** LoRaWAN: whether the network server decoded its last payload; undefined before the first payload. */
  readonly networkDecodes: boolean | undefined;
  /** The last uplink that could not be read or decoded; undefined if there was none. */
  readonly lastUplinkFailure: UplinkFailureRecord | undefined;
  /** The last warnings of its decoder; undefined if there were none. */
  readonly lastDecoderWarnings: DecoderWarnings | undefined;
  /**
   * The uplink interval of the device's profile in seconds; undefined if there is no profile or the profile has none.
   */
  readonly profileInterval: number | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** Maps one value of an uplink to one sensor. */
export interface SensorMapping {
  readonly id: string;
  readonly sensorId: string;
  /** The canonical path, see formatSourcePath. */
  readonly sourcePath: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A sensor attached to a device. */
export interface Sensor {
  readonly id: string;
  readonly sensorTemplateId: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** Units of a data sending interval; a month counts as 30 days. */
export type IntervalUnit = 'minute' | 'hour' | 'day' | 'week' | 'month';

/** How often a device is expected to send: every `value` units, 1 to 10000. */
export interface DataSendingInterval {
  readonly unit: IntervalUnit;
  readonly value: number;
}

/** The list form of a device. */
export interface ListedDevice {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly lastSeenAt: number | undefined;
  readonly physicalDevice: Pick<PhysicalDevice, 'id' | 'clientDeviceId' | 'connectionId'> | undefined;
  readonly sensors: readonly Pick<Sensor, 'id' | 'sensorTemplateId'>[];
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** The maximum number of sensors per device. */
export const MAX_SENSORS_PER_DEVICE = 500;

/** Validates a set of mappings without the database: invalid paths, and duplicate paths and sensors. */
export function checkMappings(mappings: readonly Pick<SensorMapping, 'sensorId' | 'sourcePath'>[]): Violation[] {
  const firstIndexBySensorId = new Map<string, number>();
  const firstIndexByPath = new Map<string, number>();
  return mappings.flatMap((mapping, index) => [
    ...findDuplicate(firstIndexBySensorId, mapping.sensorId, index, 'sensorId'),
    ...checkPath(firstIndexByPath, mapping.sourcePath, index),
  ]);
}

/** Validates the path of the mapping at `index`, and that no mapping before it has the same path in any spelling. */
function checkPath(firstIndexByPath: Map<string, number>, text: string, index: number): Violation[] {
  const field = `mappings[${index}].sourcePath`;
  const steps = parseSourcePath(text);
  if (!steps) return [{ field, description: `${JSON.stringify(text)} is not a valid path: use ${SOURCE_PATH_FORM}` }];
  const path = formatSourcePath(steps);
  if (path.length > MAX_SOURCE_PATH_LENGTH)
    return [{ field, description: `has ${path.length} characters: at most ${MAX_SOURCE_PATH_LENGTH} are allowed` }];
  return findDuplicate(firstIndexByPath, path, index, 'sourcePath');
}

/**
 * Returns a violation if a mapping before `index` has the same value in the field `name`; otherwise records the index
 * in `firstIndexByValue`.
 */
function findDuplicate(
  firstIndexByValue: Map<string, number>,
  value: string,
  index: number,
  name: string,
): Violation[] {
  const firstIndex = firstIndexByValue.get(value);
  firstIndexByValue.set(value, firstIndex ?? index);
  if (firstIndex === undefined || value === '') return []; // an empty value is reported elsewhere as missing
  return [
    {
      field: `mappings[${index}].${name}`,
      description: `is a duplicate of mappings[${firstIndex}]: use each ${name} once`,
    },
  ];
}

/** Creates the error for a physical device that is already bound to another digital device. */
export function alreadyBound(connectionId: string, clientDeviceId: string): DomainError {
  return new DomainError(
    'already_exists',
    'physical_device_already_bound',
    `the physical device ${JSON.stringify(clientDeviceId)} of this connection is already bound to another device; unbind it there first, or use another clientDeviceId`,
    { metadata: { connection_id: connectionId, client_device_id: clientDeviceId } },
  );
}

/** Creates the error for a binding whose configuration names an unknown profile. */
export function profileNotFound(profileId: string): DomainError {
  const description = `profile ${JSON.stringify(truncateForDisplay(profileId, 128))} not found; use an id from ListDeviceProfiles or \`plantroom profiles list\`, or omit the field`;
  return validationFailed([{ field: 'physicalDevice.configuration.profileId', description }]);
}

/** Creates the error for mappings of a device that has no physical device. */
export function noPhysicalDevice(deviceId: string): DomainError {
  return new DomainError(
    'conflict',
    'no_physical_device',
    'the device is not bound to a physical device; update it with physicalDevice first, then set the mappings',
    {
      metadata: { device_id: deviceId },
    },
  );
}

/** A sensor, and a command that expects a state of it. */
export interface SensorUse {
  readonly sensorId: string;
  readonly commandName: string;
}

/** Creates the error for sensors that commands depend on. */
export function sensorInUse(uses: readonly SensorUse[]): DomainError {
  const listedUses = uses
    .slice(0, 5)
    .map((use) => `sensor ${use.sensorId} by command ${JSON.stringify(use.commandName)}`);
  const remainder = uses.length > 5 ? ` and ${uses.length - 5} more` : '';
  return new DomainError(
    'conflict',
    'sensor_in_use',
    `commands expect a state of the sensors: ${listedUses.join(', ')}${remainder}; remove the sensors from expectedSensorStates first`,
    {
      metadata: { sensor_id: uses[0]?.sensorId ?? '', uses: String(uses.length) },
    },
  );
}

/**
 * Returns the hour of a time (Unix milliseconds) as the column `seen_hour` contains it: the hour in which a device was
 * last seen, or created if it was never seen. The search for silent devices uses that column.
 */
export function computeSeenHour(time: number): number {
  return Math.floor(time / HOUR_MS);
}
