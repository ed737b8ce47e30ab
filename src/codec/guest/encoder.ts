import type { EncoderInput, ScriptDefinitions } from '../sandboxProtocol';
import type { EntryPointCall } from './entryPointCall';
import { findEntryPoint, type EntryFunction } from './entryPoint';
import { getSource, parse } from './intrinsics';
import { getParameterNames } from './parameters';
import { formatUnusableEncoderResult, readEncoderResult } from './encoderResult';

/** Prepares the call of the script's encoder; undefined if it has none. `input` is the JSON text of an EncoderInput. */
export function findEncoderCall(definitions: ScriptDefinitions, input: string): EntryPointCall | undefined {
  const run = bindEncoder(definitions, parse(input) as EncoderInput);
  return (
    run && {
      run,
      read: readEncoderResult,
      formatUnsettled: () => formatUnusableEncoderResult('a promise that is never settled'),
    }
  );
}

/** Binds the encoder to the arguments of its form: `encodeDownlink`, else the older `Encode` or `Encoder`. */
function bindEncoder(definitions: ScriptDefinitions, input: EncoderInput): (() => unknown) | undefined {
  const { data, fPort, variables } = input;
  const encodeDownlink = findEntryPoint('encodeDownlink', definitions);
  if (encodeDownlink) return bindLegacyParameters(encodeDownlink, input) ?? (() => encodeDownlink(input));
  const encode = findEntryPoint('Encode', definitions);
  if (encode) return () => encode(fPort, data, variables);
  const encoder = findEntryPoint('Encoder', definitions);
  return encoder && (() => encoder(data, fPort));
}

/**
 * Binds an encoder that has the current name, but the parameters of an older form, such as `encodeDownlink(obj, port)`;
 * undefined for others. With the current parameter it would encode missing values.
 */
function bindLegacyParameters(
  encode: EntryFunction,
  { data, fPort, variables }: EncoderInput,
): (() => unknown) | undefined {
  const { first, second } = getParameterNames(getSource(encode));
  if (isPortName(first) && isObjectName(second)) return () => encode(fPort, data, variables);
  return isObjectName(first) && isPortName(second) ? () => encode(data, fPort) : undefined;
}

const isPortName = (name: string): boolean => name === 'port' || name === 'fPort';
const isObjectName = (name: string): boolean => name === 'obj' || name === 'object';
