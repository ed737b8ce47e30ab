import { truncate } from '../../kernel/truncate';
import type { Outcome } from '../../kernel/outcome';

/** A table of a file: an object in YAML, a table in TOML. */
export type Table = Readonly<Record<string, unknown>>;

/** The maximum number of characters in the id of a brand or model, and in a firmware version. */
const MAX_ID_LENGTH = 128;

/** Narrows a value to a table. */
export function isTable(value: unknown): value is Table {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

/** Returns the own field of a table; undefined if there is none. Inherited properties do not count. */
export function getField(table: Table, name: string): unknown {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

/** Converts a scalar to a text in one line, trimmed; undefined if the value is not a scalar or blank. */
export function formatText(value: unknown): string | undefined {
  if (!['string', 'number', 'bigint', 'boolean'].includes(typeof value)) return undefined;
  const text = String(value)
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim()
    .toWellFormed();
  return text === '' ? undefined : text;
}

/** Reads a scalar as a file name, unchanged; undefined if the value is not a scalar or blank. */
export function findFileName(value: unknown): string | undefined {
  return formatText(value) === undefined ? undefined : String(value);
}

/** Reads a field as a file name; undefined if the field is absent. */
export function readFileName(table: Table, name: string): Outcome<string | undefined> {
  const value = getField(table, name);
  return typeof value === 'object' && value !== null
    ? { problem: `has a ${name} that is not a file name` }
    : { value: findFileName(value) };
}

/** Same as formatText, but at most `max` characters, and empty instead of undefined. */
export function formatShortText(value: unknown, max: number): string {
  return truncate(formatText(value) ?? '', max).trimEnd();
}

/** Returns the items of a list; an empty list for another value. */
export function toList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Returns the items of a list field. Calls `onInvalid` if the field has a value that is not a list. */
export function readList(table: Table, name: string, onInvalid: () => void): readonly unknown[] {
  const value = getField(table, name);
  if (value !== undefined && value !== null && !Array.isArray(value)) onInvalid();
  return toList(value);
}

/** Converts a value to a part of an id: white space and `/` become `-`. */
export function toId(value: unknown): Outcome<string> {
  const text = formatText(value);
  if (text === undefined) return { problem: 'is missing or empty' };
  const id = text.replace(/[/\s]+/g, '-');
  return id.length > MAX_ID_LENGTH ? { problem: `is longer than ${MAX_ID_LENGTH} characters` } : { value: id };
}
