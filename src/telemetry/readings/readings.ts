import { type MappedSensor, parseSourcePath, type PathStep } from '../../devices';
import type { Reading, SampleTimes } from '../../executions';
import type { JsonValue } from '../../kernel/jsonValue';
import { typedValue } from '../../sensorTemplates';

/** What an uplink says about the sensors of a device. */
export interface Readings {
  readonly taken: readonly Reading[];
  /** Values that are none of their sensor's type: they are not stored as something else. */
  readonly refused: readonly MappedSensor[];
}

/**
 * The values of a payload by the device's mappings, each of the value type of its sensor. A sensor whose path the payload does not
 * hold has none; null is no value either, but for a sensor of type json.
 */
export function readingsOf(payload: Readonly<Record<string, unknown>>, mapped: readonly MappedSensor[], times: SampleTimes): Readings {
  const taken: Reading[] = [];
  const refused: MappedSensor[] = [];
  for (const sensor of mapped) {
    const found = valueAt(payload, parseSourcePath(sensor.sourcePath) ?? []);
    if (found === undefined || (found === null && sensor.valueType !== 'json')) continue;
    const value = typedValue(sensor.valueType, found);
    if (value === undefined) refused.push(sensor);
    else taken.push({ sensorId: sensor.sensorId, sourcePath: sensor.sourcePath, value, ...times });
  }
  return { taken, refused };
}

function valueAt(root: unknown, steps: readonly PathStep[]): JsonValue | undefined {
  let value = root;
  for (const step of steps) {
    const holds = typeof value === 'object' && value !== null && (typeof step === 'number') === Array.isArray(value) && Object.hasOwn(value, step);
    if (!holds) return undefined;
    value = (value as Record<PathStep, unknown>)[step];
  }
  return value as JsonValue;
}
