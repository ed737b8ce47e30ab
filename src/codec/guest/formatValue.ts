import { concat, getTypedArrayLength, isArray, isError, isTypedArray, stringify, toText, truncate } from './intrinsics';

const MAX_SHOWN_NUMBERS = 1000;
const MAX_DESCRIPTION_LENGTH = 40;
const MAX_ERROR_NAME_LENGTH = 100;
const MAX_SHOWN_ERROR_LENGTH = 1000;

/**
 * Formats a value as a line of at most `maxLength` characters. Does not throw, except when the time or memory of the
 * script is used up.
 */
export function formatValue(value: unknown, maxLength: number): string {
  if (typeof value === 'string') return truncate(value, maxLength);
  if (typeof value === 'bigint') return concat(truncate(toText(value), maxLength), 'n');
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return truncate(toText(value), maxLength);
  try {
    return truncate(formatObject(value), maxLength);
  } catch {
    return 'an object that cannot be shown';
  }
}

/** Describes a wrong value for an error message: strings in quotes, objects only by their kind. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return stringify(truncate(value, MAX_DESCRIPTION_LENGTH));
  if (typeof value !== 'object' || value === null) return formatValue(value, MAX_DESCRIPTION_LENGTH);
  if (isArray(value)) return 'a list';
  return isTypedArray(value) ? 'a typed array' : 'an object';
}

/** Formats a thrown value: an error as `TypeError: <message>`, any other value like `formatValue`. */
export function formatThrown(value: unknown, maxLength: number): string {
  if (typeof value !== 'object' || value === null) return formatValue(value, maxLength);
  try {
    const { name, message } = value as { name?: unknown; message?: unknown };
    if (typeof message !== 'string') return formatValue(value, maxLength);
    return truncate(
      typeof name === 'string' && name !== '' ? concat(truncate(name, MAX_ERROR_NAME_LENGTH), ': ', message) : message,
      maxLength,
    );
  } catch {
    return 'an object that cannot be shown';
  }
}

function formatObject(value: object): string {
  if (isError(value)) return formatThrown(value, MAX_SHOWN_ERROR_LENGTH);
  if (isTypedArray(value)) return formatNumbers(value);
  return toText(stringify(value));
}

function formatNumbers(array: Uint8Array): string {
  const length = getTypedArrayLength(array);
  let text = '';
  for (let index = 0; index < length && index < MAX_SHOWN_NUMBERS; index += 1)
    text += concat(index === 0 ? '' : ',', toText(array[index]));
  return concat('[', text, length > MAX_SHOWN_NUMBERS ? ',...]' : ']');
}
