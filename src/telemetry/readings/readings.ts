import { MIN_SAMPLE_TIME_MS } from '../../connections';
import { type MappedSensor, parseSourcePath } from '../../devices';
import type { SampleTimes } from '../../executions';
import { InexactNumber } from '../../kernel/inexactNumber';
import { type JsonValue, getValueAtPath } from '../../kernel/jsonValue';
import { convertToType } from '../../sensorTemplates';
import type { StoredReading } from './storedReading';

/** A value of an uplink and its sensor. */
export interface SensorValue extends MappedSensor {
  readonly value: JsonValue;
}

/** A value of an uplink that its sensor cannot have. */
export interface RefusedValue extends MappedSensor {
  /** JSON, or an InexactNumber. */
  readonly value: unknown;
}

/** The sensor values of an uplink. */
interface Readings {
  /** Values with the type of their sensor. */
  readonly accepted: readonly SensorValue[];
  /**
   * Values with the wrong type for their sensor, and numbers that it cannot hold as they were sent. They are not
   * stored.
   */
  readonly refused: readonly RefusedValue[];
}

/**
 * Applies the mappings of a device to a payload and converts the values to the types of their sensors. Skips sensors
 * whose path is not in the payload. null counts as absent, except for sensors of type json. A number that is not finite
 * is refused; if it is inside the value of a sensor of type json, that value is accepted too, with null in its place.
 */
export function getReadings(payload: Readonly<Record<string, unknown>>, mapped: readonly MappedSensor[]): Readings {
  const accepted: SensorValue[] = [];
  const refused: RefusedValue[] = [];
  for (const sensor of mapped) {
    const found: unknown = getValueAtPath(payload as JsonValue, parseSourcePath(sensor.sourcePath) ?? []);
    if (isAbsent(found, sensor)) continue;
    const nonFinite = findNonFinite(found);
    const value = found === nonFinite ? undefined : convertToType(sensor.valueType, toJsonNumbers(found));
    if (value !== undefined) accepted.push({ ...sensor, value });
    if (value === undefined || nonFinite) refused.push({ ...sensor, value: nonFinite ?? found });
  }
  return { accepted, refused };
}

/** Whether a sensor has no value in the payload. */
function isAbsent(found: unknown, { valueType }: MappedSensor): boolean {
  return found === undefined || (found === null && valueType !== 'json');
}

/** Returns the first number in a value that is not finite. */
function findNonFinite(value: unknown): InexactNumber | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (value instanceof InexactNumber) return Number.isFinite(value.nearest) ? undefined : value;
  for (const inner of Object.values(value)) {
    const nonFinite = findNonFinite(inner);
    if (nonFinite) return nonFinite;
  }
  return undefined;
}

/** Returns a value with numbers that JSON has: the nearest ones, and null for those that are not finite. */
function toJsonNumbers(value: unknown): JsonValue {
  if (typeof value !== 'object' || value === null) return value as JsonValue;
  if (value instanceof InexactNumber) return Number.isFinite(value.nearest) ? value.nearest : null;
  if (Array.isArray(value)) return value.map(toJsonNumbers);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, toJsonNumbers(inner)]));
}

/**
 * Returns the time under which readings are stored, Unix milliseconds, integer, and its source: the device time if it
 * is plausible (not before 2000 and not in the future), otherwise the receive time.
 */
export function getReadingTime({
  deviceTime,
  timeSource,
  receivedAt,
}: Pick<SampleTimes, 'deviceTime' | 'receivedAt'> & Pick<StoredReading, 'timeSource'>): Pick<
  StoredReading,
  'time' | 'timeSource'
> {
  return deviceTime !== undefined && deviceTime >= MIN_SAMPLE_TIME_MS && deviceTime <= receivedAt
    ? { time: deviceTime, timeSource }
    : { time: Math.floor(receivedAt), timeSource: 'received' };
}
