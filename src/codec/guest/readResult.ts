import type { GuestResult } from '../guestWords';
import { cut, isArray, isInteger, isTypedArray, lengthOfTypedArray, stringify } from './intrinsics';
import { name, show } from './show';

const MOST_BYTES = 65_536;
const MOST_LINES = 100;
const LINE_LENGTH = 1000;
const RIGHT = 'must be a list of integers from 0 to 255 or a typed array';

const HEX = '0123456789abcdef';

/** What an encoder gave back, as the JSON text of a GuestResult. Every value of the script's is read once. */
export function readResult(value: unknown): string {
  if (typeof value !== 'object' || value === null) return wrong(`the encoder returned ${name(value)}; it must return {bytes: [1, 2, 3]}`);
  if (isArray(value) || isTypedArray(value)) return withBytes(value, undefined, '[]');
  const { errors, warnings, fPort, bytes } = value as Record<string, unknown>;
  const errorLines = lines(errors);
  const warningLines = lines(warnings);
  if (errorLines !== '[]') return answer({ errors: errorLines, warnings: warningLines });
  return withBytes(bytes, fPort, warningLines);
}

function withBytes(bytes: unknown, fPort: unknown, warnings: string): string {
  const absent = fPort === undefined || fPort === null;
  if (!absent && !isPort(fPort)) return wrong(`fPort is ${name(fPort)}; it must be an integer from 1 to 223, or left out`, warnings);
  return readBytes(bytes, absent ? '' : `"fPort":${fPort},`, warnings);
}

function readBytes(bytes: unknown, fPort: string, warnings: string): string {
  const typed = isTypedArray(bytes);
  if (!typed && !isArray(bytes)) return wrong(`bytes is ${name(bytes)}; it ${RIGHT}`, warnings);
  const list = bytes as { readonly length: unknown; readonly [at: number]: unknown };
  const length = typed ? lengthOfTypedArray(bytes) : list.length;
  if (typeof length !== 'number' || !isInteger(length)) return wrong(`bytes has the length ${name(length)}; it ${RIGHT}`, warnings);
  if (length > MOST_BYTES) return problem('too_large', `bytes holds ${length} values; at most ${MOST_BYTES} are taken`, warnings);
  let hex = '';
  for (let at = 0; at < length; at += 1) {
    const byte = list[at];
    if (!isByte(byte)) return wrong(`bytes[${at}] is ${name(byte)}; every byte must be an integer from 0 to 255`, warnings);
    hex += `${HEX[byte >> 4]}${HEX[byte & 15]}`;
  }
  return `{${fPort}"hex":"${hex}","warnings":${warnings}}`;
}

const isByte = (value: unknown): value is number => typeof value === 'number' && isInteger(value) && value >= 0 && value <= 255;
const isPort = (value: unknown): value is number => typeof value === 'number' && isInteger(value) && value >= 1 && value <= 223;

const wrong = (message: string, warnings = '[]'): string => problem('bad_output', message, warnings);
const problem = (code: NonNullable<GuestResult['problem']>['code'], message: string, warnings: string): string =>
  answer({ problem: `{"code":"${code}","message":${stringify(message)}}`, warnings });

function answer(parts: { readonly errors?: string; readonly problem?: string; readonly warnings: string }): string {
  const errors = parts.errors === undefined ? '' : `"errors":${parts.errors},`;
  const problem = parts.problem === undefined ? '' : `"problem":${parts.problem},`;
  return `{${errors}${problem}"warnings":${parts.warnings}}`;
}

/** `errors` or `warnings` as the JSON text of a list of texts: a list, or one value that stands for itself. */
function lines(value: unknown): string {
  if (value === undefined || value === null || value === '') return '[]';
  if (!isArray(value)) return `[${line(value)}]`;
  const { length } = value; // of a Proxy it may be anything
  let text = '';
  for (let at = 0; at < length && at < MOST_LINES; at += 1) text += at === 0 ? line(value[at]) : `,${line(value[at])}`;
  return length > MOST_LINES ? `[${text},"(the rest was cut)"]` : `[${text}]`;
}

const line = (value: unknown): string => stringify(cut(show(value, LINE_LENGTH), LINE_LENGTH));
