import { type CodecError, type EncodeRequest, type EncodeResult, formatCodecError, type Sandbox } from '../codec';
import { isLorawan, getVariables } from '../connections';
import type { Device } from '../devices';
import type { JsonValue } from '../kernel/jsonValue';
import { truncateForDisplay } from '../kernel/truncate';

/** The part of the sandbox that this module uses. */
export type Encoder = Pick<Sandbox, 'encode'>;

/** Device variables that an encoder receives as `input.variables`. */
export type Variables = NonNullable<EncodeRequest['variables']>;

/** Returns the variables of a device; empty if it has no physical device. */
export function getDeviceVariables({ physicalDevice }: Pick<Device, 'physicalDevice'>): Variables {
  return physicalDevice ? getVariables(physicalDevice.configuration) : {};
}

/** One run of a command's encoder. */
interface EncoderRun {
  /** The owner in the fair queue. Executions and previews of an organization have different owners. */
  readonly owner: string;
  /** The type of the device's connection, for example `gateway` or `chirpstack`; undefined if the device has none. */
  readonly connectorType: string | undefined;
  readonly script: string;
  /** `input.data`. */
  readonly data: JsonValue;
  readonly variables: Variables;
  /** The fPort of the command; it takes precedence over the encoder's fPort. */
  readonly fPort: number | undefined;
  /** The signal of the call that waits; undefined if the run cannot be cancelled. */
  readonly signal: AbortSignal | undefined;
}

/** The maximum number of bytes that an encoder may return, for LoRaWAN and for other connections. */
const MAX_OUTPUT_BYTES = { lorawan: 242, others: 65_536 } as const;
// The message may contain text of the script.
const MAX_MESSAGE_LENGTH = 2000;

/**
 * Runs an encoder and checks its result against the limits of the connection. `output` has the fPort that is used.
 * Throws `codec_queue_full`, `codec_unavailable`, `shutting_down`.
 */
export async function runEncoder(encoder: Encoder, run: EncoderRun): Promise<EncodeResult> {
  const { owner, connectorType, script, data, variables, fPort, signal } = run;
  const result = await encoder.encode({ owner, script, data, variables, fPort }, signal);
  if (!result.output) return result;
  const output = { bytes: result.output.bytes, fPort: result.output.fPort ?? fPort };
  const error = checkOutputSize(connectorType, output.bytes);
  return error ? { ...result, output: undefined, error } : { ...result, output };
}

/** Returns a `too_large` error if this type of connection cannot send that many bytes. */
function checkOutputSize(connectorType: string | undefined, bytes: Uint8Array): CodecError | undefined {
  const max = isLorawan(connectorType) ? MAX_OUTPUT_BYTES.lorawan : MAX_OUTPUT_BYTES.others;
  if (bytes.length <= max) return undefined;
  const message = `the encoder returned ${bytes.length} bytes: at most ${max} are allowed${isLorawan(connectorType) ? ' on LoRaWAN' : ''}`;
  return { code: 'too_large', message, lineNumber: undefined };
}

/** Formats an encoder error as the end of a sentence about the field that holds the encoder. */
export function formatEncoderError(error: CodecError): string {
  return `failed with ${formatCodecError({ ...error, message: truncateForDisplay(error.message, MAX_MESSAGE_LENGTH) })}`;
}
