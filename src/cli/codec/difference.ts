import type { CodecError, DecodeResult, EncodeResult } from '../../codec';
import { plainText } from '../plainText';
import type { DecoderExample, EncoderExample } from './example';
import { valueDifference } from './valueDifference';
import { spacedHex } from './workbench';

/** The first difference between what an encoder answered and what it was to answer, named by its path; undefined: there is none. */
export function encoderDifference({ input, expected }: Pick<EncoderExample, 'input' | 'expected'>, { output, warnings, error }: EncodeResult): string | undefined {
  const failure = failureDifference(expected.errors ?? [], error, 'encoder_errors');
  if (failure !== undefined || !output) return failure;
  return bytesDifference(expected.bytes, [...output.bytes]) ?? fPortDifference(expected.fPort, output.fPort ?? input.fPort) ?? textsDifference('warnings', expected.warnings, warnings);
}

/** The same of a decoder. */
export function decoderDifference({ expected }: Pick<DecoderExample, 'expected'>, { data, warnings, error }: DecodeResult): string | undefined {
  const failure = failureDifference(expected.errors ?? [], error, 'decoder_errors');
  if (failure !== undefined || !data) return failure;
  return (expected.data && valueDifference('data', expected.data, data)) ?? textsDifference('warnings', expected.warnings, warnings);
}

/** `ownErrors`: the code of errors that the script itself answered. */
function failureDifference(expected: readonly string[], error: CodecError | undefined, ownErrors: CodecError['code']): string | undefined {
  const errors = expected.join('; ') || undefined;
  if (error && error.code !== ownErrors) return `${error.code}${error.lineNumber === undefined ? '' : ` at line ${error.lineNumber}`}: ${plainText(error.message)}`;
  return errors === error?.message ? undefined : `errors: expected ${shortText(errors)}, got ${shortText(error?.message)}`;
}

function bytesDifference(expected: readonly number[] | undefined, got: readonly number[]): string | undefined {
  if (!expected) return undefined;
  const at = expected.findIndex((byte, index) => byte !== got[index]);
  const whole = `(expected ${shortHex(expected)}, got ${shortHex(got)})`;
  if (at !== -1 && at < got.length) return `bytes[${at}]: expected ${expected[at]}, got ${got[at]} ${whole}`;
  return expected.length === got.length ? undefined : `bytes: expected ${expected.length}, got ${got.length} ${whole}`;
}

function fPortDifference(expected: number | undefined, got: number | undefined): string | undefined {
  return expected === undefined || expected === got ? undefined : `fPort: expected ${expected}, got ${got ?? 'none'}`;
}

function textsDifference(name: string, expected: readonly string[] | undefined, got: readonly string[]): string | undefined {
  if (!expected) return undefined;
  const at = expected.findIndex((text, index) => text !== got[index]);
  if (at !== -1) return `${name}[${at}]: expected ${shortText(expected[at])}, got ${shortText(got[at])}`;
  return expected.length === got.length ? undefined : `${name}[${expected.length}]: none expected, got ${shortText(got[expected.length])}`;
}

function shortText(text: string | undefined): string {
  return text === undefined ? 'none' : JSON.stringify(plainText(text, 200));
}

function shortHex(bytes: readonly number[]): string {
  if (bytes.length === 0) return 'none';
  return bytes.length > 32 ? `${spacedHex(bytes.slice(0, 32))} …` : spacedHex(bytes);
}
