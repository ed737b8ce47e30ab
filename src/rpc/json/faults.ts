import type { Violation } from '../../kernel/errors';
import { shortened } from '../../kernel/shortened';

/** How many violations of one request are told; more help nobody. */
export const MOST_VIOLATIONS = 100;

const LONGEST_NAME = 64;
const LONGEST_VALUE = 60;
const KEY_PREFIX = 'plr_';

/** Adds a violation, unless there are enough. The description is a function where it costs something to make. */
export function report(out: Violation[], field: string, description: string | (() => string)): void {
  if (out.length < MOST_VIOLATIONS) out.push({ field, description: typeof description === 'string' ? description : description() });
}

/** The path of a name below another path. The name is a stranger's, and may be long. */
export function pathTo(path: string, name: string): string {
  const shown = shortened(name, LONGEST_NAME);
  return path === '' ? shown : `${path}.${shown}`;
}

/** A JSON value as a message shows it: a number, true, false and null as they are, of all else only the kind, for it may be a secret. */
export function kindOf(json: unknown): string {
  if (typeof json === 'string') return 'a text';
  if (Array.isArray(json)) return 'a list';
  return typeof json === 'object' && json !== null ? 'an object' : shortened(String(json), LONGEST_VALUE);
}

/** A text as a message shows it, in quotes; not if it may be an API key. */
export function quoted(text: string): string {
  return text.includes(KEY_PREFIX) ? 'a text' : JSON.stringify(shortened(text, LONGEST_VALUE));
}

/** Whether a JSON value is an object: no list, not null. */
export function isObject(json: unknown): json is Readonly<Record<string, unknown>> {
  return typeof json === 'object' && json !== null && !Array.isArray(json);
}
