import type { GuestProblem } from '../sandboxProtocol';
import { concat, isArray, objectKeys, stringify } from './intrinsics';
import { formatValue } from './formatValue';

const MAX_LINES = 100;
const MAX_LINE_LENGTH = 1000;
const MAX_LISTED_KEYS = 5;
const MAX_KEY_LENGTH = 40;

/**
 * Formats a GuestResult with an answer. `answer`, `warnings` and `nonFinite` are JSON text already, here and below.
 */
export const formatAnswer = (answer: string, warnings: string, nonFinite = '[]'): string =>
  concat('{"answer":', answer, ',"warnings":', warnings, ',"nonFinite":', nonFinite, '}');

/** Formats a GuestResult with the errors that the script reports. */
export const formatErrors = (errors: string, warnings: string): string =>
  concat('{"errors":', errors, ',"warnings":', warnings, '}');

/** Formats a GuestResult for a returned value that is not usable. */
export const formatProblem = (code: GuestProblem['code'], warnings: string, message: string): string =>
  concat('{"problem":{"code":"', code, '","message":', stringify(message), '},"warnings":', warnings, '}');

/** Formats a `bad_output` problem. The message is the subject, what was found, and what is expected. */
export const formatBadOutput = (warnings: string, subject: string, found: string, expected: string): string =>
  formatProblem('bad_output', warnings, concat(subject, found, expected));

/** Lists the keys that an object has, for the message about a missing one; empty if it has none. */
export function formatPresentKeys(value: object): string {
  const keys = objectKeys(value);
  let text = '';
  for (let index = 0; index < keys.length && index < MAX_LISTED_KEYS; index += 1)
    text += concat(index === 0 ? '' : ', ', formatValue(keys[index], MAX_KEY_LENGTH));
  if (text === '') return '';
  return concat(' (there is ', text, keys.length > MAX_LISTED_KEYS ? ', ...)' : ')');
}

/**
 * Formats the script's `errors` or `warnings` as the JSON text of a list of strings. A value that is not a list counts
 * as one line; one that means "none" (undefined, null, `false`, an empty text or object) gives an empty list. Empty
 * lines of a list are omitted.
 */
export function formatLines(value: unknown): string {
  if (value === undefined || value === null || value === false) return '[]';
  if (isArray(value)) return formatLineList(value);
  const line = formatValue(value, MAX_LINE_LENGTH);
  return line === '' || line === '{}' ? '[]' : concat('[', stringify(line), ']');
}

function formatLineList(list: readonly unknown[]): string {
  const { length } = list; // read once: a Proxy can return another value each time
  let text = '';
  for (let index = 0; index < length && index < MAX_LINES; index += 1) {
    const line = formatValue(list[index], MAX_LINE_LENGTH);
    if (line !== '') text += concat(text === '' ? '' : ',', stringify(line));
  }
  return concat('[', text, text !== '' && length > MAX_LINES ? ',"(the rest was cut)"]' : ']');
}
