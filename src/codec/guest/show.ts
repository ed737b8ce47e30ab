import { cut, glue, isArray, isError, isTypedArray, lengthOfTypedArray, stringify, toText } from './intrinsics';

const MOST_NUMBERS = 1000;

/** A value as a line of text, at most `limit` characters; it never throws, except when time or memory are over. */
export function show(value: unknown, limit: number): string {
  if (typeof value === 'string') return cut(value, limit);
  if (typeof value === 'bigint') return glue(cut(toText(value), limit), 'n');
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return cut(toText(value), limit);
  try {
    return cut(showObject(value), limit);
  } catch {
    return 'an object that cannot be shown';
  }
}

/** The same for a sentence about a wrong value: texts in quotes, and of objects only that they are some. */
export function name(value: unknown): string {
  if (typeof value === 'string') return stringify(cut(value, 40));
  if (typeof value !== 'object' || value === null) return show(value, 40);
  if (isArray(value)) return 'a list';
  return isTypedArray(value) ? 'a typed array' : 'an object';
}

/** What a thrown value says: `TypeError: ...` of errors, else the value. */
export function showThrown(value: unknown, limit: number): string {
  if (typeof value !== 'object' || value === null) return show(value, limit);
  try {
    const { name, message } = value as { name?: unknown; message?: unknown };
    if (typeof message !== 'string') return show(value, limit);
    return cut(typeof name === 'string' && name !== '' ? glue(cut(name, 100), ': ', message) : message, limit);
  } catch {
    return 'an object that cannot be shown';
  }
}

function showObject(value: object): string {
  if (isError(value)) return showThrown(value, MOST_NUMBERS);
  if (isTypedArray(value)) return showNumbers(value);
  return toText(stringify(value));
}

function showNumbers(array: Uint8Array): string {
  const length = lengthOfTypedArray(array);
  let text = '';
  for (let at = 0; at < length && at < MOST_NUMBERS; at += 1) text += glue(at === 0 ? '' : ',', toText(array[at]));
  return glue('[', text, length > MOST_NUMBERS ? ',...]' : ']');
}
