import type { TargetFlags } from '../call/target';
import { print, printJson } from '../output';
import { toPlainText } from '../plainText';
import { formatDocument } from './documentText';

/** Flags of every subcommand; `json` is the same as `output: 'json'`. */
export interface DashboardFlags extends TargetFlags {
  readonly output: 'table' | 'json' | 'yaml';
}

/** Whether a command prints JSON. */
export function isJson({ output, json = false }: DashboardFlags): boolean {
  return json || output === 'json';
}

/** Prints a value as JSON or YAML, or calls `showTables` for people. */
export function printFormatted(value: unknown, flags: DashboardFlags, showTables: () => void): void {
  if (isJson(flags)) return printJson(value);
  if (flags.output === 'yaml') return print(formatDocument(value).trimEnd());
  showTables();
}

/** Escapes all texts of a table row and cuts them after 80 characters, because users write them. */
export function toPlainRow<Row extends Readonly<Record<string, string>>>(row: Row): Row {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, toPlainText(value, 80)])) as Row;
}
