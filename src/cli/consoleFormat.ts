import { styleText } from 'node:util';

const LEVELS = { debug: 'DEBUG', info: 'INFO ', warn: 'WARN ', error: 'ERROR' } as const;
const COLORS = { debug: 'gray', info: 'green', warn: 'yellow', error: 'red' } as const;
/** Fields that have their own place in the line. */
const NAMED_FIELDS = new Set(['level', 'time', 'message', 'event']);

/**
 * Formats a JSON log line for people: local time, level, message, then the event and the fields as `name=value`. The
 * stack of an error follows on separate lines. There are no colors if NO_COLOR is set or `stream` is not a terminal.
 */
export function formatConsoleLine(line: string, stream: NodeJS.WriteStream = process.stdout): string {
  const record = JSON.parse(line) as Record<string, unknown>;
  const level = record['level'] as keyof typeof LEVELS;
  const style = (format: Parameters<typeof styleText>[0], text: string): string => styleText(format, text, { stream });
  const fields = Object.entries(record)
    .filter(([name]) => !NAMED_FIELDS.has(name))
    .map(([name, value]) => `${name}=${formatValue(value)}`);
  const stack = findStack(record['err'] ?? record['error']);
  const time = new Date(String(record['time'])).toLocaleTimeString('sv-SE'); // HH:MM:SS, 24 hours
  const details = style('gray', [String(record['event']), ...fields].join(' '));
  const message = String(record['message']);
  return `${style('gray', time)} ${style(COLORS[level], LEVELS[level])} ${message}  ${details}\n${stack}`;
}

function formatValue(value: unknown): string {
  if (isError(value)) return JSON.stringify(value.message);
  return typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
}

function findStack(value: unknown): string {
  return isError(value) && value.stack ? `    ${value.stack.replaceAll('\n', '\n    ')}\n` : '';
}

function isError(value: unknown): value is { readonly message: string; readonly stack?: string } {
  return typeof value === 'object' && value !== null && 'message' in value && 'stack' in value;
}
