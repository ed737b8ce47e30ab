import type { CodecError, DecodeResult, EncodeResult } from '../../codec';
import { toPlainText } from '../plainText';
import type { DecoderExample, EncoderExample } from './example';
import { findValueDifference } from './valueDifference';
import { formatHex } from './codecRunner';

/** Finds the first difference between the expected and the actual encoder output, with its path; undefined: equal. */
export function findEncoderDifference(
  { input, expected }: Pick<EncoderExample, 'input' | 'expected'>,
  { output, warnings, error }: EncodeResult,
): string | undefined {
  const failure = findErrorDifference(expected.errors ?? [], error, 'encoder_errors');
  if (failure !== undefined || !output) return failure; // an expected error has no output
  return (
    findBytesDifference(expected.bytes, [...output.bytes]) ??
    findFPortDifference(expected.fPort, output.fPort ?? input.fPort) ??
    findTextListDifference('warnings', expected.warnings, warnings)
  );
}

/** Finds the first difference between the expected and the actual decoder output; undefined: equal. */
export function findDecoderDifference(
  { expected }: Pick<DecoderExample, 'expected'>,
  { data, warnings, error }: DecodeResult,
): string | undefined {
  const failure = findErrorDifference(expected.errors ?? [], error, 'decoder_errors');
  if (failure !== undefined || !data) return failure; // an expected error has no data
  return (
    (expected.data && findValueDifference('data', expected.data, data)) ??
    findTextListDifference('warnings', expected.warnings, warnings)
  );
}

/**
 * Compares the expected errors of a script with the actual error. `scriptErrorCode` is the code of errors that the
 * script itself returns; an error with another code (for example a timeout) is never expected.
 */
function findErrorDifference(
  expected: readonly string[],
  error: CodecError | undefined,
  scriptErrorCode: CodecError['code'],
): string | undefined {
  const expectedMessage = expected.join('; ') || undefined; // the sandbox joins the errors of a script in this way
  if (error && error.code !== scriptErrorCode)
    return `${error.code}${error.lineNumber === undefined ? '' : ` at line ${error.lineNumber}`}: ${toPlainText(error.message)}`;
  return expectedMessage === error?.message
    ? undefined
    : `errors: expected ${formatText(expectedMessage)}, got ${formatText(error?.message)}`;
}

/** Finds the first different byte, or a difference in length; bytes that are not expected are not compared. */
function findBytesDifference(expected: readonly number[] | undefined, actual: readonly number[]): string | undefined {
  if (!expected) return undefined;
  const differentIndex = expected.findIndex((byte, index) => byte !== actual[index]);
  const bothValues = `(expected ${formatShortHex(expected)}, got ${formatShortHex(actual)})`;
  if (differentIndex !== -1 && differentIndex < actual.length)
    return `bytes[${differentIndex}]: expected ${expected[differentIndex]}, got ${actual[differentIndex]} ${bothValues}`;
  return expected.length === actual.length
    ? undefined
    : `bytes: expected ${expected.length}, got ${actual.length} ${bothValues}`;
}

function findFPortDifference(expected: number | undefined, actual: number | undefined): string | undefined {
  return expected === undefined || expected === actual
    ? undefined
    : `fPort: expected ${expected}, got ${actual ?? 'none'}`;
}

/** Finds the first difference between two lists of texts; a list that is not expected is not compared. */
function findTextListDifference(
  name: string,
  expected: readonly string[] | undefined,
  actual: readonly string[],
): string | undefined {
  if (!expected) return undefined;
  const differentIndex = expected.findIndex((text, index) => text !== actual[index]);
  if (differentIndex !== -1)
    return `${name}[${differentIndex}]: expected ${formatText(expected[differentIndex])}, got ${formatText(actual[differentIndex])}`;
  return expected.length === actual.length
    ? undefined
    : `${name}[${expected.length}]: none expected, got ${formatText(actual[expected.length])}`;
}

function formatText(text: string | undefined): string {
  return text === undefined ? 'none' : JSON.stringify(toPlainText(text, 200));
}

function formatShortHex(bytes: readonly number[]): string {
  if (bytes.length === 0) return 'none';
  return bytes.length > 32 ? `${formatHex(bytes.slice(0, 32))} …` : formatHex(bytes);
}
