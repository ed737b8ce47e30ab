import { print, printJson } from '../output';
import { toPlainText } from '../plainText';
import { formatDocument } from './documentText';

/** The output format of a command; `json` is the same as `output: 'json'`. */
export interface FormatFlags {
  readonly output: 'table' | 'json' | 'yaml';
  readonly json?: boolean;
}

/** Prints a value as JSON or YAML, or calls `showTables` for people. */
export function printFormatted(value: unknown, { output, json }: FormatFlags, showTables: () => void): void {
  if (json || output === 'json') return printJson(value);
  if (output === 'yaml') return print(formatDocument(value).trimEnd());
  showTables();
}

/** Escapes all texts of a table row and cuts them after 80 characters, because users write them. */
export function toPlainRow<Row extends Readonly<Record<string, string>>>(row: Row): Row {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, toPlainText(value, 80)])) as Row;
}
