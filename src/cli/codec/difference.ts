import type { CodecError, EncodeResult } from '../../codec';
import type { Example } from './exampleFile';
import { plainText, spacedHex } from './workbench';

/** The first difference between what an encoder answered and what it was to answer, named by its path; undefined: there is none. */
export function differenceOf({ input, expected }: Pick<Example, 'input' | 'expected'>, { output, warnings, error }: EncodeResult): string | undefined {
  const errors = expected.errors ?? [];
  if (error) return failureDifference(errors, error);
  if (errors.length > 0 || !output) return `errors: expected ${shortText(errors.join('; '))}, got none`;
  return bytesDifference(expected.bytes ?? [], [...output.bytes]) ?? fPortDifference(expected.fPort, output.fPort ?? input.fPort) ?? textsDifference('warnings', expected.warnings, warnings);
}

function failureDifference(expected: readonly string[], { code, message, lineNumber }: CodecError): string | undefined {
  if (code !== 'encoder_errors') return `${code}${lineNumber === undefined ? '' : ` at line ${lineNumber}`}: ${plainText(message)}`;
  const errors = expected.join('; ');
  return errors === message ? undefined : `errors: expected ${shortText(errors || undefined)}, got ${shortText(message)}`;
}

function bytesDifference(expected: readonly number[], got: readonly number[]): string | undefined {
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
