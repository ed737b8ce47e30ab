import { answered, beside, failed, lines, problem, wrong } from './answers';
import { glue, isArray, isInteger, isTypedArray, lengthOfTypedArray, toText } from './intrinsics';
import { name } from './show';

const MOST_BYTES = 65_536;
const HEX = '0123456789abcdef';
const A_LIST = '; it must be a list of integers from 0 to 255 or a typed array';

/** What an encoder gave back, as the JSON text of a GuestResult. Every value of the script's is read once. */
export function readBytes(value: unknown): string {
  if (typeof value !== 'object' || value === null) return wrongBytes(name(value));
  if (isArray(value) || isTypedArray(value)) return withPort(value, undefined, '[]');
  const { errors, warnings, fPort, bytes } = value as Record<string, unknown>;
  const errorLines = lines(errors);
  const warningLines = lines(warnings);
  if (errorLines !== '[]') return failed(errorLines, warningLines);
  if (bytes === undefined) return wrong(warningLines, 'bytes is undefined', beside(value), A_LIST);
  return withPort(bytes, fPort, warningLines);
}

/** The same when it gave back something else. */
export const wrongBytes = (what: string): string => wrong('[]', 'the encoder returned ', what, '; it must return {bytes: [1, 2, 3]}');

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
  return answered(glue('{', fPort, '"hex":"', hex, '"}'), warnings);
}

const isWithin = (value: unknown, least: number, most: number): value is number => typeof value === 'number' && isInteger(value) && value >= least && value <= most;
