import type { DecoderInput, Found } from '../guestWords';
import type { Call } from './call';
import { entryPoint } from './entryPoint';
import { parse, Time } from './intrinsics';
import { readData, readDecoded, wrongData, wrongDecoded } from './readData';

const NEVER_SETTLED = 'a promise that is never settled';

/** The call of the script's decoder for uplinks; undefined: it has none. `text` is the JSON text of a DecoderInput. */
export function uplinkDecoderCall(found: Found, text: string): Call | undefined {
  const input = parse(text) as DecoderInput;
  return inNewForm('decodeUplink', found, input) ?? inOlderForm(found, input);
}

/** The same for downlinks, which have no older forms. */
export function downlinkDecoderCall(found: Found, text: string): Call | undefined {
  return inNewForm('decodeDownlink', found, parse(text) as DecoderInput);
}

function inNewForm(name: 'decodeUplink' | 'decodeDownlink', found: Found, input: DecoderInput): Call | undefined {
  const decode = entryPoint(name, found);
  return decode && { run: () => decode(withTime(input)), read: readDecoded, unsettled: () => wrongDecoded(NEVER_SETTLED) };
}

function inOlderForm(found: Found, input: DecoderInput): Call | undefined {
  const run = chosen(found, input);
  return run && { run, read: readData, unsettled: () => wrongData(NEVER_SETTLED) };
}

function chosen(found: Found, { bytes, fPort, variables }: DecoderInput): (() => unknown) | undefined {
  const decode = entryPoint('Decode', found);
  if (decode) return () => decode(fPort, bytes, variables);
  const decoder = entryPoint('Decoder', found);
  return decoder && (() => decoder(bytes, fPort));
}

function withTime(input: DecoderInput): object {
  return input.recvTime === undefined ? input : { ...input, recvTime: new Time(input.recvTime) };
}
