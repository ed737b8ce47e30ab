import type { EncoderInput, Found } from '../guestWords';
import type { Call } from './call';
import { entryPoint } from './entryPoint';
import { parse } from './intrinsics';
import { readBytes, wrongBytes } from './readBytes';

/** The call of the script's encoder; undefined: it has none. `input` is the JSON text of an EncoderInput. */
export function encoderCall(found: Found, input: string): Call | undefined {
  const run = chosen(found, parse(input) as EncoderInput);
  return run && { run, read: readBytes, unsettled: () => wrongBytes('a promise that is never settled') };
}

/** The encoder to call, in its own form: the new one, else the older ones. */
function chosen(found: Found, { data, fPort, variables }: EncoderInput): (() => unknown) | undefined {
  const encodeDownlink = entryPoint('encodeDownlink', found);
  if (encodeDownlink) return () => encodeDownlink(fPort === undefined ? { data, variables } : { data, fPort, variables });
  const encode = entryPoint('Encode', found);
  if (encode) return () => encode(fPort, data, variables);
  const encoder = entryPoint('Encoder', found);
  return encoder && (() => encoder(data, fPort));
}
