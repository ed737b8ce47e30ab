import { UsageError } from '../exit';

/**
 * One member of an answer, for scripts: `id`, `sensors.0.id`, and in a list by a member of its elements: `sensorTemplates.keyName=valve_position.id`.
 * Text comes without quotes, everything else as JSON. Throws a UsageError that says what there is instead.
 */
export function pickedField(answer: unknown, path: string): string {
  let value = answer;
  const seen: string[] = [];
  for (const step of path.split('.')) {
    const next = stepInto(value, step);
    if (next === undefined) throw new UsageError(`the answer has no ${JSON.stringify([...seen, step].join('.'))}: ${seen.length === 0 ? 'it' : JSON.stringify(seen.join('.'))} ${whatIsThere(value)}`);
    value = next;
    seen.push(step);
  }
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function stepInto(value: unknown, step: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  const [name = '', ...wanted] = step.split('=');
  if (wanted.length === 0) return Object.hasOwn(value, step) ? (value as Readonly<Record<string, unknown>>)[step] : undefined;
  if (!Array.isArray(value)) return undefined;
  return value.find((element: unknown) => String(stepInto(element, name)) === wanted.join('='));
}

function whatIsThere(value: unknown): string {
  if (Array.isArray(value)) return `is a list of ${value.length}; take one by its number from 0, or by a member, for example name=Boiler`;
  if (typeof value !== 'object' || value === null) return 'has no members';
  const names = Object.keys(value);
  return names.length === 0 ? 'is empty' : `has ${names.join(', ')}`;
}
