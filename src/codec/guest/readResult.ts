import type { GuestResult } from '../guestWords';
import { glue, isArray, isInteger, isTypedArray, lengthOfTypedArray, namesOf, stringify, toText } from './intrinsics';
import { name, show } from './show';

const MOST_BYTES = 65_536;
const MOST_LINES = 100;
const LINE_LENGTH = 1000;
const MOST_NAMES = 5;
const HEX = '0123456789abcdef';
const A_LIST = '; it must be a list of integers from 0 to 255 or a typed array';

/** What an encoder gave back, as the JSON text of a GuestResult. Every value of the script's is read once. */
export function readResult(value: unknown): string {
  if (typeof value !== 'object' || value === null) return wrong('[]', 'the encoder returned ', name(value), '; it must return {bytes: [1, 2, 3]}');
  if (isArray(value) || isTypedArray(value)) return withPort(value, undefined, '[]');
  const { errors, warnings, fPort, bytes } = value as Record<string, unknown>;
  const errorLines = lines(errors);
  const warningLines = lines(warnings);
  if (errorLines !== '[]') return glue('{"errors":', errorLines, ',"warnings":', warningLines, '}');
  if (bytes === undefined) return wrong(warningLines, 'bytes is undefined', beside(value), A_LIST);
  return withPort(bytes, fPort, warningLines);
}

/** What is there instead of bytes. */
function beside(value: object): string {
  const names = namesOf(value);
  let text = '';
  for (let at = 0; at < names.length && at < MOST_NAMES; at += 1) text += glue(at === 0 ? '' : ', ', show(names[at], 40));
  if (text === '') return '';
  return glue(' (there is ', text, names.length > MOST_NAMES ? ', ...)' : ')');
}

function withPort(bytes: unknown, fPort: unknown, warnings: string): string {
  if (fPort === undefined || fPort === null) return withBytes(bytes, '', warnings);
  if (!isWithin(fPort, 1, 223)) return wrong(warnings, 'fPort is ', name(fPort), '; it must be an integer from 1 to 223, or left out');
  return withBytes(bytes, glue('"fPort":', toText(fPort), ','), warnings);
}

function withBytes(bytes: unknown, fPort: string, warnings: string): string {
  const typed = isTypedArray(bytes);
  if (!typed && !isArray(bytes)) return wrong(warnings, 'bytes is ', name(bytes), A_LIST);
  const list = bytes as { readonly length: unknown; readonly [at: number]: unknown };
  const length = typed ? lengthOfTypedArray(bytes) : list.length;
  if (typeof length !== 'number' || !isInteger(length)) return wrong(warnings, 'bytes has the length ', name(length), A_LIST);
  if (length > MOST_BYTES) return problem('too_large', warnings, glue('bytes holds ', toText(length), ' values; at most ', toText(MOST_BYTES), ' are taken'));
  let hex = '';
  for (let at = 0; at < length; at += 1) {
    const byte = list[at];
    if (!isWithin(byte, 0, 255)) return wrong(warnings, glue('bytes[', toText(at), '] is '), name(byte), '; every byte must be an integer from 0 to 255');
    hex += toText(HEX[byte >> 4]) + toText(HEX[byte & 15]);
  }
  return glue('{', fPort, '"hex":"', hex, '","warnings":', warnings, '}');
}

const isWithin = (value: unknown, least: number, most: number): value is number => typeof value === 'number' && isInteger(value) && value >= least && value <= most;

const wrong = (warnings: string, what: string, found: string, right: string): string => problem('bad_output', warnings, glue(what, found, right));
const problem = (code: NonNullable<GuestResult['problem']>['code'], warnings: string, message: string): string =>
  glue('{"problem":{"code":"', code, '","message":', stringify(message), '},"warnings":', warnings, '}');

/** `errors` or `warnings` as the JSON text of a list of texts: a list, or one value that stands for itself. What is empty counts as nothing. */
function lines(value: unknown): string {
  if (value === undefined || value === null || value === false) return '[]';
  if (isArray(value)) return linesOfList(value);
  const line = show(value, LINE_LENGTH);
  return line === '' || line === '{}' ? '[]' : glue('[', stringify(line), ']');
}

function linesOfList(list: readonly unknown[]): string {
  const { length } = list; // of a Proxy it may be anything
  let text = '';
  for (let at = 0; at < length && at < MOST_LINES; at += 1) {
    const line = show(list[at], LINE_LENGTH);
    if (line !== '') text += glue(text === '' ? '' : ',', stringify(line));
  }
  return glue('[', text, text !== '' && length > MOST_LINES ? ',"(the rest was cut)"]' : ']');
}
