import type { Violation } from '../../kernel/errors';
import { truncateForDisplay } from '../../kernel/truncate';

/** The maximum number of violations that are reported for one request. */
export const MAX_VIOLATIONS = 100;

const MAX_NAME_LENGTH = 64;
const MAX_VALUE_LENGTH = 60;
const KEY_PREFIX = 'plr_';

/**
 * Appends a violation, unless there are MAX_VIOLATIONS already. `description` may be a function if the text is costly
 * to build.
 */
export function addViolation(out: Violation[], field: string, description: string | (() => string)): void {
  if (out.length < MAX_VIOLATIONS)
    out.push({ field, description: typeof description === 'string' ? description : description() });
}

/** Appends a name to a path. The name comes from the client, so it is truncated to 64 characters. */
export function joinPath(path: string, name: string): string {
  const shown = truncateForDisplay(name, MAX_NAME_LENGTH);
  return path === '' ? shown : `${path}.${shown}`;
}

/**
 * Describes a JSON value for a message. Numbers, true, false and null are shown as they are. Of other values only the
 * kind is shown, because they may be secret.
 */
export function describeValue(json: unknown): string {
  if (typeof json === 'string') return 'a string';
  if (Array.isArray(json)) return 'an array';
  return typeof json === 'object' && json !== null ? 'an object' : truncateForDisplay(String(json), MAX_VALUE_LENGTH);
}

/** Quotes a string for a message, truncated; returns "a string" if it may contain an API key. */
export function quoteText(text: string): string {
  return text.includes(KEY_PREFIX) ? 'a string' : JSON.stringify(truncateForDisplay(text, MAX_VALUE_LENGTH));
}
