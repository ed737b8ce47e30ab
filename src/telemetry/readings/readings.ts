import { type MappedSensor, parseSourcePath } from '../../devices';
import type { SampleTimes } from '../../executions';
import { type JsonValue, valueAt } from '../../kernel/jsonValue';
import { typedValue } from '../../sensorTemplates';

/** A value of an uplink, and the sensor that it goes to. */
export interface MappedValue extends MappedSensor {
  readonly value: JsonValue;
}

/** What an uplink says about the sensors of a device. */
export interface Readings {
  /** Each of the value type of its sensor. */
  readonly taken: readonly MappedValue[];
  /** Values that are none of their sensor's type: they are not stored as something else. */
  readonly refused: readonly MappedValue[];
}

// Own times before it are those of clocks that were never set.
const FIRST_TIME = Date.UTC(2000, 0, 1);

/**
 * The values of a payload by the device's mappings, each of the value type of its sensor. A sensor whose path the payload does not
 * hold has none; null is no value either, but for a sensor of type json.
 */
export function readingsOf(payload: Readonly<Record<string, unknown>>, mapped: readonly MappedSensor[]): Readings {
  const taken: MappedValue[] = [];
  const refused: MappedValue[] = [];
  for (const sensor of mapped) {
    const found = valueAt(payload as JsonValue, parseSourcePath(sensor.sourcePath) ?? []);
    if (found === undefined || (found === null && sensor.valueType !== 'json')) continue;
    const value = typedValue(sensor.valueType, found);
    if (value === undefined) refused.push({ ...sensor, value: found });
    else taken.push({ ...sensor, value });
  }
  return { taken, refused };
}

/** The time that readings are stored under: their own one if it can be, else that of their receipt. Whole Unix milliseconds. */
export function readingTime({ ownTime, receivedAt }: SampleTimes): number {
  return ownTime !== undefined && ownTime >= FIRST_TIME && ownTime <= receivedAt ? ownTime : Math.floor(receivedAt);
}
