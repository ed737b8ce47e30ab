import Table from 'cli-table3';

/** How a command shows its answer. */
export interface OutputOptions {
  /** For programs: one JSON value on stdout, nothing else. */
  readonly json?: boolean | undefined;
}

/** Writes a line to stdout. */
export function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Writes one JSON value to stdout; `indent` as JSON.stringify has it. */
export function sayJson(value: unknown, indent?: number): void {
  say(plainJson(JSON.stringify(value, undefined, indent)));
}

/** JSON, the same value without what would steer a terminal: such characters as JSON writes them with \\u. Line ends stay: they are between the values. */
export function plainJson(json: string): string {
  return json.replaceAll(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => Array.from({ length: character.length }, (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''));
}

/** Writes a line for people to stderr, so that stdout stays what a program may read. */
export function note(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** Shows one record: JSON for programs, a line per field for people. */
export function showRecord(record: Readonly<Record<string, unknown>>, { json }: OutputOptions): void {
  if (json) return sayJson(record);
  const width = Math.max(...Object.keys(record).map((key) => key.length));
  for (const [key, value] of Object.entries(record)) say(`${key.padEnd(width)}  ${cell(value)}`);
}

/**
 * Shows records: a JSON array for programs, a table for people. `columns` are names of fields. On a terminal that is narrower than the
 * table each record is a block with a line per field; through a pipe it stays a table.
 */
export function showTable<Row extends object>(rows: readonly Row[], columns: readonly (keyof Row & string)[], { json }: OutputOptions): void {
  if (json) return sayJson(rows);
  if (rows.length === 0) return say('none');
  const table = new Table({ head: [...columns], style: { head: [], border: [], compact: true }, chars: PLAIN });
  for (const row of rows) table.push(columns.map((column) => tableCell(row[column])));
  const lines = table.toString().split('\n').map((line) => line.trimEnd());
  if (lines.some((line) => line.length > terminalWidth())) return showBlocks(rows, columns);
  say(lines.join('\n'));
}

function showBlocks<Row extends object>(rows: readonly Row[], columns: readonly (keyof Row & string)[]): void {
  const width = Math.max(...columns.map((column) => column.length));
  const blocks = rows.map((row) => columns.map((column) => `${column.padEnd(width)}  ${tableCell(row[column])}`).join('\n'));
  say(blocks.join('\n\n'));
}

/** The columns of the terminal that stdout is; of anything else there is no end. */
function terminalWidth(): number {
  const { isTTY, columns } = process.stdout as { isTTY?: boolean; columns?: number };
  return isTTY && columns ? columns : Infinity;
}

// Columns apart by spaces: can be read, cut and grepped.
const PLAIN = { top: '', 'top-mid': '', 'top-left': '', 'top-right': '', bottom: '', 'bottom-mid': '', 'bottom-left': '', 'bottom-right': '', left: '', 'left-mid': '', mid: '', 'mid-mid': '', right: '', 'right-mid': '', middle: '' };

/** Times without their milliseconds: --json has them. */
function tableCell(value: unknown): string {
  return cell(value).replace(/^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{3}Z$/, '$1Z');
}

function cell(value: unknown): string {
  if (value === undefined || value === null || value === '') return '-';
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.map(cell).join(', ');
  return typeof value === 'string' ? value : JSON.stringify(value);
}
