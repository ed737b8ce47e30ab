import {
  formatAnswer,
  formatBadOutput,
  formatErrors,
  formatLines,
  formatPresentKeys,
  formatProblem,
} from './resultText';
import { isArray, isTypedArray, truncate } from './intrinsics';
import { describeValue } from './formatValue';
import { writeJson } from './writeJson';

const EXPECTED_DATA = '; it must be an object, such as {temperature: 21.5}';

/**
 * Returns the JSON text of the GuestResult for what `decodeUplink` or `decodeDownlink` returned: an object with `data`.
 * Reads every value of the script once.
 */
export function readDecoderResult(value: unknown): string {
  if (!isObject(value)) return formatUnusableDecoderResult(describeValue(value));
  const { errors, warnings, data } = value as Record<string, unknown>;
  const errorsJson = formatLines(errors);
  const warningsJson = formatLines(warnings);
  if (errorsJson !== '[]') return formatErrors(errorsJson, warningsJson);
  if (data === undefined)
    return formatBadOutput(warningsJson, 'data is undefined', formatPresentKeys(value), EXPECTED_DATA);
  if (!isObject(data)) return formatBadOutput(warningsJson, 'data is ', describeValue(data), EXPECTED_DATA);
  return formatData(data, warningsJson);
}

/** Returns the JSON text of the GuestResult for a decoder that returned something else. */
export const formatUnusableDecoderResult = (found: string): string =>
  formatBadOutput('[]', 'the decoder returned ', found, '; it must return {data: {temperature: 21.5}}');

/** Returns the JSON text of the GuestResult for what a decoder of an older form returned: the data itself. */
export function readLegacyDecoderResult(value: unknown): string {
  return isObject(value) ? formatData(value, '[]') : formatUnusableLegacyResult(describeValue(value));
}

/**
 * Returns the JSON text of the GuestResult for a decoder with a current name and older parameters, which may return an
 * object with `data`, or the data itself.
 */
export function readRenamedDecoderResult(value: unknown): string {
  const isCurrentForm = isObject(value) && ('data' in value || 'errors' in value);
  return isCurrentForm ? readDecoderResult(value) : readLegacyDecoderResult(value);
}

/** Returns the JSON text of the GuestResult for a decoder of an older form that returned something else. */
export const formatUnusableLegacyResult = (found: string): string =>
  formatBadOutput('[]', 'the decoder returned ', found, '; it must return an object, such as {temperature: 21.5}');

/** Returns the JSON text of the GuestResult for the decoded data. */
function formatData(data: object, warningsJson: string): string {
  const { text, nonFinite, problem } = writeJson(data);
  if (problem) return formatProblem(problem.code, warningsJson, problem.message);
  // A value with toJSON, such as a Date, may not be an object in JSON.
  if (text === undefined || truncate(text, 1) !== '{')
    return formatBadOutput(
      warningsJson,
      'data written as JSON is ',
      text === undefined ? 'nothing' : truncate(text, 40),
      EXPECTED_DATA,
    );
  return formatAnswer(text, warningsJson, nonFinite);
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !isArray(value) && !isTypedArray(value);
