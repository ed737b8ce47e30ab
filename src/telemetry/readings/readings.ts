import { type MappedSensor, parseSourcePath } from '../../devices';
import type { SampleTimes } from '../../executions';
import { type JsonValue, getValueAtPath } from '../../kernel/jsonValue';
import { convertToType } from '../../sensorTemplates';

/** A value of an uplink and its sensor. */
export interface SensorValue extends MappedSensor {
  readonly value: JsonValue;
}

/** The sensor values of an uplink. */
interface Readings {
  /** Values with the type of their sensor. */
  readonly accepted: readonly SensorValue[];
  /** Values with the wrong type for their sensor. They are not stored. */
  readonly refused: readonly SensorValue[];
}

// A device time before 2000 comes from a clock that was never set.
const MIN_DEVICE_TIME_MS = Date.UTC(2000, 0, 1);

/**
 * Applies the mappings of a device to a payload and converts the values to the types of their sensors. Skips sensors
 * whose path is not in the payload. null counts as absent, except for sensors of type json.
 */
export function getReadings(payload: Readonly<Record<string, unknown>>, mapped: readonly MappedSensor[]): Readings {
  const accepted: SensorValue[] = [];
  const refused: SensorValue[] = [];
  for (const sensor of mapped) {
    const found = getValueAtPath(payload as JsonValue, parseSourcePath(sensor.sourcePath) ?? []);
    if (found === undefined || (found === null && sensor.valueType !== 'json')) continue;
    const value = convertToType(sensor.valueType, found);
    if (value === undefined) refused.push({ ...sensor, value: found });
    else accepted.push({ ...sensor, value });
  }
  return { accepted, refused };
}

/**
 * Returns the time under which readings are stored: the device time if it is plausible (not before 2000 and not in the
 * future), otherwise the receive time. Unix milliseconds, integer.
 */
export function getReadingTime({ deviceTime, receivedAt }: Pick<SampleTimes, 'deviceTime' | 'receivedAt'>): number {
  return deviceTime !== undefined && deviceTime >= MIN_DEVICE_TIME_MS && deviceTime <= receivedAt
    ? deviceTime
    : Math.floor(receivedAt);
}
