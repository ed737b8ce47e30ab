import { UsageError } from '../exit';

/**
 * Reads one field of a response, for scripts: `id`, `sensors.0.id`, or an item of a list by a field:
 * `sensorTemplates.keyName=valve_position.id`. Returns strings without quotes, everything else as JSON. Throws a
 * UsageError that lists the available fields.
 */
export function pickField(response: unknown, path: string): string {
  let value = response;
  const steps: string[] = [];
  for (const step of path.split('.')) {
    const next = getChild(value, step);
    if (next === undefined)
      throw new UsageError(
        `the response has no ${JSON.stringify([...steps, step].join('.'))}: ${steps.length === 0 ? 'it' : JSON.stringify(steps.join('.'))} ${describeContent(value)}`,
      );
    value = next;
    steps.push(step);
  }
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Returns the field, or for `field=value` the first item of a list with this value; undefined if there is none. */
function getChild(value: unknown, step: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  const [name = '', ...valueParts] = step.split('=');
  if (valueParts.length === 0)
    return Object.hasOwn(value, step) ? (value as Readonly<Record<string, unknown>>)[step] : undefined;
  if (!Array.isArray(value)) return undefined;
  return value.find((element: unknown) => String(getChild(element, name)) === valueParts.join('='));
}

function describeContent(value: unknown): string {
  if (Array.isArray(value))
    return `is a list of ${value.length}: select an item by its index from 0, or by a field, for example name=Boiler`;
  if (typeof value !== 'object' || value === null) return 'has no fields';
  const names = Object.keys(value);
  return names.length === 0 ? 'is empty' : `has ${names.join(', ')}`;
}
