import {
  formatAnswer,
  formatBadOutput,
  formatErrors,
  formatLines,
  formatPresentKeys,
  formatProblem,
} from './resultText';
import { concat, getTypedArrayLength, isArray, isInteger, isTypedArray, toText } from './intrinsics';
import { describeValue } from './formatValue';

const MAX_BYTES = 65_536;
// The ports of LoRaWAN applications.
const MIN_F_PORT = 1;
const MAX_F_PORT = 223;
const HEX_DIGITS = '0123456789abcdef';
const EXPECTED_BYTES = '; it must be a list of integers from 0 to 255 or a typed array';

/**
 * Returns the JSON text of the GuestResult for what an encoder returned: the bytes, or an object with `bytes`. Reads
 * every value of the script only once, because a getter may return another value each time.
 */
export function readEncoderResult(value: unknown): string {
  if (typeof value !== 'object' || value === null) return formatUnusableEncoderResult(describeValue(value));
  if (isArray(value) || isTypedArray(value)) return formatOutput(value, undefined, '[]');
  const { errors, warnings, fPort, bytes } = value as Record<string, unknown>;
  const errorsJson = formatLines(errors);
  const warningsJson = formatLines(warnings);
  if (errorsJson !== '[]') return formatErrors(errorsJson, warningsJson);
  if (bytes === undefined)
    return formatBadOutput(warningsJson, 'bytes is undefined', formatPresentKeys(value), EXPECTED_BYTES);
  return formatOutput(bytes, fPort, warningsJson);
}

/** Returns the JSON text of the GuestResult for an encoder that returned something else. */
export const formatUnusableEncoderResult = (found: string): string =>
  formatBadOutput('[]', 'the encoder returned ', found, '; it must return {bytes: [1, 2, 3]}');

/** Returns the JSON text of the GuestResult for bytes and an optional port. */
function formatOutput(bytes: unknown, fPort: unknown, warningsJson: string): string {
  if (fPort === undefined || fPort === null) return formatBytes(bytes, '', warningsJson);
  if (!isIntegerBetween(fPort, MIN_F_PORT, MAX_F_PORT))
    return formatBadOutput(
      warningsJson,
      'fPort is ',
      describeValue(fPort),
      '; it must be an integer from 1 to 223, or left out',
    );
  return formatBytes(bytes, concat('"fPort":', toText(fPort), ','), warningsJson);
}

/**
 * Returns the JSON text of the GuestResult: the bytes in hexadecimal, or why they are not valid. `fPortField` is the
 * JSON text of the field with its comma, or empty.
 */
function formatBytes(bytes: unknown, fPortField: string, warningsJson: string): string {
  const isTyped = isTypedArray(bytes);
  if (!isTyped && !isArray(bytes))
    return formatBadOutput(warningsJson, 'bytes is ', describeValue(bytes), EXPECTED_BYTES);
  const list = bytes as { readonly length: unknown; readonly [index: number]: unknown };
  const length = isTyped ? getTypedArrayLength(bytes) : list.length;
  if (typeof length !== 'number' || !isInteger(length))
    return formatBadOutput(warningsJson, 'bytes has the length ', describeValue(length), EXPECTED_BYTES);
  if (length > MAX_BYTES)
    return formatProblem(
      'too_large',
      warningsJson,
      concat('bytes holds ', toText(length), ' values; at most ', toText(MAX_BYTES), ' are taken'),
    );
  let hex = '';
  for (let index = 0; index < length; index += 1) {
    const byte = list[index];
    if (!isIntegerBetween(byte, 0, 255))
      return formatBadOutput(
        warningsJson,
        concat('bytes[', toText(index), '] is '),
        describeValue(byte),
        '; every byte must be an integer from 0 to 255',
      );
    hex += toText(HEX_DIGITS[byte >> 4]) + toText(HEX_DIGITS[byte & 15]);
  }
  return formatAnswer(concat('{', fPortField, '"hex":"', hex, '"}'), warningsJson);
}

const isIntegerBetween = (value: unknown, min: number, max: number): value is number =>
  typeof value === 'number' && isInteger(value) && value >= min && value <= max;
