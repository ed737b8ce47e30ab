import Table from 'cli-table3';

/** The output format of a command. */
export interface OutputOptions {
  /** Print one JSON value on stdout and nothing else. */
  readonly json?: boolean | undefined;
}

/** Writes a line to stdout. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Writes one JSON value to stdout; `indent`: see JSON.stringify. */
export function printJson(value: unknown, indent?: number): void {
  print(escapeJson(JSON.stringify(value, undefined, indent)));
}

/**
 * Escapes control characters in JSON text with \\u, so that they cannot control the terminal. The value stays the same.
 * Line ends are kept: inside values JSON escapes them already.
 */
export function escapeJson(json: string): string {
  return json.replaceAll(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) =>
    // A character outside the Basic Multilingual Plane has two escapes.
    Array.from(
      { length: character.length },
      (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`,
    ).join(''),
  );
}

/** Writes a message for people to stderr, so that stdout contains only the output. */
export function note(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** Prints one record: JSON, or one line per field. */
export function showRecord(record: Readonly<Record<string, unknown>>, { json }: OutputOptions): void {
  if (json) return printJson(record);
  const width = Math.max(...Object.keys(record).map((key) => key.length));
  for (const [key, value] of Object.entries(record)) print(`${key.padEnd(width)}  ${formatCell(value)}`);
}

/**
 * Prints records: a JSON array, or a table with the fields `columns`. If the terminal is narrower than the table, each
 * record is printed as a block with one line per field. Output to a pipe is always a table.
 */
export function showTable<Row extends object>(
  rows: readonly Row[],
  columns: readonly (keyof Row & string)[],
  { json }: OutputOptions,
): void {
  if (json) return printJson(rows);
  if (rows.length === 0) return print('none');
  const table = new Table({ head: [...columns], style: { head: [], border: [], compact: true }, chars: NO_BORDERS });
  for (const row of rows) table.push(columns.map((column) => formatTableCell(row[column])));
  const lines = table
    .toString()
    .split('\n')
    .map((line) => line.trimEnd());
  if (lines.some((line) => line.length > getTerminalWidth())) return showBlocks(rows, columns);
  print(lines.join('\n'));
}

function showBlocks<Row extends object>(rows: readonly Row[], columns: readonly (keyof Row & string)[]): void {
  const width = Math.max(...columns.map((column) => column.length));
  const blocks = rows.map((row) =>
    columns.map((column) => `${column.padEnd(width)}  ${formatTableCell(row[column])}`).join('\n'),
  );
  print(blocks.join('\n\n'));
}

/** Returns the number of columns of the terminal; infinity if stdout is not a terminal. */
function getTerminalWidth(): number {
  const { isTTY, columns } = process.stdout as { isTTY?: boolean; columns?: number };
  return isTTY && columns ? columns : Infinity;
}

/** The style of tables. Columns are separated by spaces, so that tools such as cut and grep can process the output. */
export const NO_BORDERS = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: '',
};

/** Formats a table cell. Times are shown without milliseconds; --json prints them. */
function formatTableCell(value: unknown): string {
  return formatCell(value).replace(/^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{3}Z$/, '$1Z');
}

function formatCell(value: unknown): string {
  if (value === undefined || value === null || value === '') return '-';
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.map(formatCell).join(', ');
  return typeof value === 'string' ? value : JSON.stringify(value);
}
