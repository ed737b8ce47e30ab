import type { CodecError, EncodeRequest, EncodeResult, Sandbox } from '../codec';
import { isLorawan, variablesOf } from '../connections';
import type { Device } from '../devices';
import type { JsonValue } from '../kernel/jsonValue';
import { shortened } from '../kernel/shortened';

/** What the room needs of the sandbox. */
export type Encoder = Pick<Sandbox, 'encode'>;

/** What an encoder is told of the device beside the command, as `input.variables`. */
export type Variables = NonNullable<EncodeRequest['variables']>;

/** The variables of a device; none where it has no physical device. */
export function deviceVariables({ physicalDevice }: Pick<Device, 'physicalDevice'>): Variables {
  return physicalDevice ? variablesOf(physicalDevice.configuration) : {};
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
  readonly variables: Variables;
  /** The command's own, which the encoder's goes before. */
  readonly fPort: number | undefined;
  /** Of the call that wants it; undefined: nobody can go away. */
  readonly signal: AbortSignal | undefined;
}

/** The most bytes that an encoder may return for LoRaWAN, and for all else. */
const MOST_BYTES = { lorawan: 242, others: 65_536 } as const;
// It may be the script's own text.
const LONGEST_MESSAGE = 2000;

/** Runs an encoder and holds what it returns against the rules of the connection; `output` has the port that it goes to. Throws `sandbox_busy`, `sandbox_unavailable`, `shutting_down`. */
export async function runEncoder(encoder: Encoder, run: EncoderRun): Promise<EncodeResult> {
  const { owner, kind, script, data, variables, fPort, signal } = run;
  const result = await encoder.encode({ owner, script, data, variables, fPort }, signal);
  if (!result.output) return result;
  const output = { bytes: result.output.bytes, fPort: result.output.fPort ?? fPort };
  const error = sizeProblem(kind, output.bytes);
  return error ? { ...result, output: undefined, error } : { ...result, output };
}

/** Why a connection of this kind cannot carry so many bytes: `too_large`; undefined when it can. */
function sizeProblem(kind: string | undefined, bytes: Uint8Array): CodecError | undefined {
  const most = isLorawan(kind) ? MOST_BYTES.lorawan : MOST_BYTES.others;
  if (bytes.length <= most) return undefined;
  const message = `the encoder returned ${bytes.length} bytes; return at most ${most}${isLorawan(kind) ? ', which is what LoRaWAN carries' : ''}`;
  return { code: 'too_large', message, lineNumber: undefined };
}

/** An error of an encoder as the end of a sentence about the field that holds it. */
export function encoderProblem({ code, message, lineNumber }: CodecError): string {
  return `fails with ${code}${lineNumber === undefined ? '' : ` in line ${lineNumber}`}: ${shortened(message, LONGEST_MESSAGE)}`;
}
