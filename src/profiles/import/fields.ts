import { cut } from '../../kernel/shortened';
import type { Outcome } from './outcome';

/** A table of a file: an object in YAML, a table in TOML. */
export type Table = Readonly<Record<string, unknown>>;

/** Characters that a brand, a model or a firmware version may have. */
const LONGEST_ID = 128;

/** Whether a value is a table. */
export function isTable(value: unknown): value is Table {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

/** What stands under a name; of its own, nothing that every object has. */
export function member(table: Table, name: string): unknown {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

/** A scalar as a text, in one line and without blanks around it; undefined: there is none. */
export function textOf(value: unknown): string | undefined {
  if (!['string', 'number', 'bigint', 'boolean'].includes(typeof value)) return undefined;
  const text = String(value).replace(/[\s\p{Cc}]+/gu, ' ').trim().toWellFormed();
  return text === '' ? undefined : text;
}

/** A scalar as the name of a file, as it stands there; undefined: there is none. */
export function fileNameOf(value: unknown): string | undefined {
  return textOf(value) === undefined ? undefined : String(value);
}

/** As fileNameOf of what stands under a name; undefined: nothing does. */
export function fileIn(table: Table, name: string): Outcome<string | undefined> {
  const value = member(table, name);
  return typeof value === 'object' && value !== null ? { problem: `has a ${name} that is no name of a file` } : { value: fileNameOf(value) };
}

/** As textOf; the first so many characters, and empty if there is none. */
export function shortText(value: unknown, most: number): string {
  return cut(textOf(value) ?? '', most).trimEnd();
}

/** The items of a list; none where there is no list. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The items of the list under a name; `note` is told if something else stands there. */
export function listIn(table: Table, name: string, note: () => void): readonly unknown[] {
  const value = member(table, name);
  if (value !== undefined && value !== null && !Array.isArray(value)) note();
  return listOf(value);
}

/** A text as part of an id: no `/`, no white space, no control characters. */
export function idOf(value: unknown): Outcome<string> {
  const text = textOf(value);
  if (text === undefined) return { problem: 'is missing or empty' };
  const id = text.replace(/[/\s]+/g, '-');
  return id.length > LONGEST_ID ? { problem: `is longer than ${LONGEST_ID} characters` } : { value: id };
}
