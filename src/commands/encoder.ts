import type { CodecError, EncodeRequest, EncodeResult } from '../codec';
import type { JsonValue } from '../kernel/jsonValue';
import { shortened } from '../kernel/shortened';

/** What the room needs of the sandbox. */
export interface Encoder {
  /** A run that still waits when the signal aborts is dropped, and rejects with the signal's reason. */
  encode(request: EncodeRequest, signal?: AbortSignal): Promise<EncodeResult>;
}

/** One run of a command's encoder. */
export interface EncoderRun {
  /** Whose turn it takes: an organization's executions are one owner, its previews another. */
  readonly owner: string;
  /** The kind of the connection that it is for, for example `gateway` or `chirpstack`; undefined: the device has none. */
  readonly kind: string | undefined;
  readonly script: string;
  /** `input.data`. */
  readonly data: JsonValue;
  /** The command's own, which the encoder's goes before. */
  readonly fPort: number | undefined;
  /** Of the call that wants it; undefined: nobody can go away. */
  readonly signal: AbortSignal | undefined;
}

/** What came of it: `output` with the port that it goes to, or `error`. */
export type EncoderOutcome = EncodeResult;

/** The most bytes that an encoder may return for LoRaWAN, and for all else. */
const MOST_BYTES = { lorawan: 242, others: 65_536 } as const;
// It may be the script's own text.
const LONGEST_MESSAGE = 2000;
const LORAWAN_KINDS: readonly (string | undefined)[] = ['chirpstack', 'chirpstack_confirmed'];

/** Runs an encoder and holds what it returns against the rules of the connection. Throws `sandbox_busy`, `sandbox_unavailable`, `shutting_down`. */
export async function runEncoder(encoder: Encoder, run: EncoderRun): Promise<EncoderOutcome> {
  const { owner, kind, script, data, fPort, signal } = run;
  const result = await encoder.encode({ owner, script, data, fPort }, signal);
  if (!result.output) return result;
  const output = { bytes: result.output.bytes, fPort: result.output.fPort ?? fPort };
  const error = outputProblem(kind, output);
  return error ? { ...result, output: undefined, error } : { ...result, output };
}

/** Whether a connection of this kind goes over LoRaWAN. */
export function isLorawan(kind: string | undefined): boolean {
  return LORAWAN_KINDS.includes(kind);
}

/** Why a connection of this kind cannot carry an output: `too_large`, `bad_output`; undefined when it can. A port that is missing is not looked at. */
export function outputProblem(kind: string | undefined, { bytes, fPort }: { readonly bytes: Uint8Array; readonly fPort: number | undefined }): CodecError | undefined {
  const most = isLorawan(kind) ? MOST_BYTES.lorawan : MOST_BYTES.others;
  if (bytes.length > most) return problem('too_large', `the encoder returned ${bytes.length} bytes; return at most ${most}${isLorawan(kind) ? ', which is what LoRaWAN carries' : ''}`);
  if (fPort !== undefined && !(Number.isInteger(fPort) && fPort >= 1 && fPort <= 223)) return problem('bad_output', `the encoder returned the fPort ${fPort}; return one from 1 to 223, or none`);
  return undefined;
}

/** An error of an encoder as the end of a sentence about the field that holds it. */
export function encoderProblem({ code, message, lineNumber }: CodecError): string {
  return `fails with ${code}${lineNumber === undefined ? '' : ` in line ${lineNumber}`}: ${shortened(message, LONGEST_MESSAGE)}`;
}

function problem(code: CodecError['code'], message: string): CodecError {
  return { code, message, lineNumber: undefined };
}
