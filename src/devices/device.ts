import { DomainError, validationFailed, type Violation } from '../kernel/errors';
import { shortened } from '../kernel/shortened';
import type { DeviceImage } from '../media';
import { formatSourcePath, LONGEST_SOURCE_PATH, parseSourcePath, SOURCE_PATH_FORM } from './sourcePath';

const HOUR_MS = 3_600_000;

/** A device as people know it. Times are Unix milliseconds. */
export interface Device {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  /** When the server last received an uplink of its physical device; undefined before the first. */
  readonly lastSeenAt: number | undefined;
  /** Undefined for a device that is bound to none. */
  readonly physicalDevice: PhysicalDevice | undefined;
  /** In the order in which they were attached. */
  readonly sensors: readonly Sensor[];
  /** By position. */
  readonly images: readonly DeviceImage[];
  /** How often it is expected to send. */
  readonly dataSendingInterval: DataSendingInterval | undefined;
  readonly createdAt: number;
  /** Of the last change by a call; an uplink does not count. */
  readonly updatedAt: number;
  /** Counts the changes from 1; the etag is made of it. */
  readonly revision: number;
}

/** The device in the field, as a connection knows it. */
export interface PhysicalDevice {
  /** New with each binding: another device in the field is another physical device. */
  readonly id: string;
  /** Normalised by the connection's connector. */
  readonly clientDeviceId: string;
  readonly connectionId: string;
  /** Settings that the connector understands. */
  readonly configuration: Readonly<Record<string, unknown>>;
  readonly sensorMappings: readonly SensorMapping[];
  /** How far apart its last uplinks were, in milliseconds, oldest first; at most REMEMBERED_GAPS. */
  readonly uplinkGaps: readonly number[];
  /** LoRaWAN: the class that its last uplink told: A, B or C; undefined: none did. */
  readonly reportedClass: string | undefined;
  /** How often the profile that its configuration names says that such devices send, in seconds; undefined: it names none. */
  readonly profileInterval: number | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** One value of an uplink that goes to one sensor. */
export interface SensorMapping {
  readonly id: string;
  readonly sensorId: string;
  /** In the one spelling of formatSourcePath. */
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

/** How often a device is expected to send: `value` units, 1 to 10000. */
export interface DataSendingInterval {
  readonly unit: IntervalUnit;
  readonly value: number;
}

/** A device as lists show it. */
export interface ListedDevice {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly lastSeenAt: number | undefined;
  readonly physicalDevice: Pick<PhysicalDevice, 'id' | 'clientDeviceId' | 'connectionId'> | undefined;
  readonly sensors: readonly Pick<Sensor, 'id' | 'sensorTemplateId'>[];
  readonly dataSendingInterval: DataSendingInterval | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** The most sensors that one device holds. */
export const MOST_SENSORS = 500;

/** What is wrong with a set of mappings as far as it alone tells: paths that are none, paths and sensors that stand in it twice. */
export function checkMappings(mappings: readonly Pick<SensorMapping, 'sensorId' | 'sourcePath'>[]): Violation[] {
  const sensors = new Map<string, number>();
  const paths = new Map<string, number>();
  return mappings.flatMap((mapping, at) => [
    ...repeated(sensors, mapping.sensorId, at, 'sensorId'),
    ...checkPath(paths, mapping.sourcePath, at),
  ]);
}

function checkPath(seen: Map<string, number>, text: string, at: number): Violation[] {
  const field = `mappings[${at}].sourcePath`;
  const steps = parseSourcePath(text);
  if (!steps) return [{ field, description: `${JSON.stringify(text)} is no path; give ${SOURCE_PATH_FORM}` }];
  const path = formatSourcePath(steps);
  if (path.length > LONGEST_SOURCE_PATH) return [{ field, description: `has ${path.length} characters; give at most ${LONGEST_SOURCE_PATH}` }];
  return repeated(seen, path, at, 'sourcePath');
}

function repeated(seen: Map<string, number>, value: string, at: number, name: string): Violation[] {
  const first = seen.get(value);
  seen.set(value, first ?? at);
  if (first === undefined || value === '') return []; // an empty one is missing, which is said elsewhere
  return [{ field: `mappings[${at}].${name}`, description: `is that of mappings[${first}] too; give each ${name} once` }];
}

/** Another digital device holds this physical device already. */
export function alreadyBound(connectionId: string, clientDeviceId: string): DomainError {
  return new DomainError(
    'already_exists',
    'physical_device_already_bound',
    `the physical device ${JSON.stringify(clientDeviceId)} of this connection is bound to another device; unbind it there first, or give another clientDeviceId`,
    { metadata: { connection_id: connectionId, client_device_id: clientDeviceId } },
  );
}

/** The configuration of a binding names a profile that is not there. */
export function noSuchProfile(profileId: string): DomainError {
  const description = `no profile ${JSON.stringify(shortened(profileId, 128))} was imported; give the id of one that ListDeviceProfiles or \`plantroom profiles list\` shows, or leave it out`;
  return validationFailed([{ field: 'physicalDevice.configuration.profileId', description }]);
}

/** Mappings need a physical device that the values come from. */
export function noPhysicalDevice(deviceId: string): DomainError {
  return new DomainError('conflict', 'no_physical_device', 'the device is not bound to a physical device; bind it by an update with physicalDevice, then set the mappings', {
    metadata: { device_id: deviceId },
  });
}

/** A sensor, and a command that expects a state of it. */
export interface SensorUse {
  readonly sensorId: string;
  readonly commandName: string;
}

/** Commands expect a state of these sensors. */
export function sensorInUse(uses: readonly SensorUse[]): DomainError {
  const named = uses.slice(0, 5).map((use) => `sensor ${use.sensorId} by command ${JSON.stringify(use.commandName)}`);
  const more = uses.length > 5 ? ` and ${uses.length - 5} more` : '';
  return new DomainError('conflict', 'sensor_in_use', `commands expect a state of the sensors: ${named.join(', ')}${more}; take them out of expectedSensorStates first`, {
    metadata: { sensor_id: uses[0]?.sensorId ?? '', uses: String(uses.length) },
  });
}

/** The hour of the time when a device was seen, or created as long as it was never seen: the missing are found by it. */
export function seenHour(time: number): number {
  return Math.floor(time / HOUR_MS);
}
