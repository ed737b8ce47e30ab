import type { DecoderInput, ScriptDefinitions } from '../sandboxProtocol';
import type { EntryPointCall } from './entryPointCall';
import { findEntryPoint, type EntryFunction } from './entryPoint';
import { defineProperty, getSource, OriginalDate, OriginalError, parse } from './intrinsics';
import { getParameterNames, readsItemsOf } from './parameters';
import {
  formatUnusableDecoderResult,
  formatUnusableLegacyResult,
  readDecoderResult,
  readLegacyDecoderResult,
  readRenamedDecoderResult,
} from './decoderResult';

const UNSETTLED_PROMISE = 'a promise that is never settled';

/**
 * Prepares the call of the script's uplink decoder: `decodeUplink`, else one of the older forms. Returns undefined if
 * it has none. `input` is the JSON text of a DecoderInput.
 */
export function findUplinkDecoderCall(definitions: ScriptDefinitions, input: string): EntryPointCall | undefined {
  const decoderInput = parse(input) as DecoderInput;
  return createCall('decodeUplink', definitions, decoderInput) ?? createLegacyCall(definitions, decoderInput);
}

/** Prepares the call of the script's downlink decoder, for which there are no older forms. */
export function findDownlinkDecoderCall(definitions: ScriptDefinitions, input: string): EntryPointCall | undefined {
  return createCall('decodeDownlink', definitions, parse(input) as DecoderInput);
}

/** Prepares the call of a decoder in the current form, which returns an object with `data`. */
function createCall(
  name: 'decodeUplink' | 'decodeDownlink',
  definitions: ScriptDefinitions,
  input: DecoderInput,
): EntryPointCall | undefined {
  const decode = findEntryPoint(name, definitions);
  if (!decode) return undefined;
  const runLegacy = bindLegacyParameters(decode, input);
  return {
    run: runLegacy ?? (() => decode(createParameter(name, input))),
    read: runLegacy ? readRenamedDecoderResult : readDecoderResult,
    formatUnsettled: () => formatUnusableDecoderResult(UNSETTLED_PROMISE),
  };
}

/**
 * Binds a decoder that has a current name, but the parameters of an older form, such as `decodeUplink(bytes, port)` or
 * a first parameter whose items it reads; undefined for other decoders. With the current single parameter, such a
 * decoder would decode nothing, or zeros, without an error.
 */
function bindLegacyParameters(
  decode: EntryFunction,
  { bytes, fPort, variables }: DecoderInput,
): (() => unknown) | undefined {
  const source = getSource(decode); // read once: the engine copies it
  const { first, second } = getParameterNames(source);
  if ((first === 'bytes' && second !== '') || readsItemsOf(source, first)) return () => decode(bytes, fPort, variables);
  const isSecond = second === 'bytes' || readsItemsOf(source, second);
  return isSecond ? () => decode(fPort, bytes, variables) : undefined;
}

/** Prepares the call of a decoder in an older form, which returns the data itself. */
function createLegacyCall(definitions: ScriptDefinitions, input: DecoderInput): EntryPointCall | undefined {
  const run = bindLegacyDecoder(definitions, input);
  return (
    run && { run, read: readLegacyDecoderResult, formatUnsettled: () => formatUnusableLegacyResult(UNSETTLED_PROMISE) }
  );
}

/** Binds the older forms to their arguments: `Decode(fPort, bytes, variables)`, else `Decoder(bytes, fPort)`. */
function bindLegacyDecoder(
  definitions: ScriptDefinitions,
  { bytes, fPort, variables }: DecoderInput,
): (() => unknown) | undefined {
  const decode = findEntryPoint('Decode', definitions);
  if (decode) return () => decode(fPort, bytes, variables);
  const decoder = findEntryPoint('Decoder', definitions);
  return decoder && (() => decoder(bytes, fPort));
}

/**
 * Creates the parameter of a decoder in the current form: `recvTime` is a Date, and reading the first bytes of the
 * parameter itself fails, because a script that expects a list would decode zeros.
 */
function createParameter(name: string, input: DecoderInput): object {
  const parameter =
    input.recvTime === undefined ? { ...input } : { ...input, recvTime: new OriginalDate(input.recvTime) };
  const rejectIndex = (): never => {
    throw new OriginalError(
      'the parameter of ' + name + ' is an object, not a list of bytes: read input.bytes[0] instead of input[0]',
    );
  };
  // Without a prototype, because a script may have changed that of all objects.
  defineProperty(parameter, '0', { __proto__: null, get: rejectIndex } as PropertyDescriptor);
  defineProperty(parameter, '1', { __proto__: null, get: rejectIndex } as PropertyDescriptor);
  return parameter;
}
