import type { JsonObject, JsonValue } from '../kernel/jsonValue';

/** Why a script gave nothing of use. Part of the API: never rename one. */
export type CodecErrorCode = 'syntax_error' | 'runtime_error' | 'encoder_errors' | 'decoder_errors' | 'no_encoder' | 'no_decoder' | 'bad_output' | 'timeout' | 'out_of_memory' | 'too_large';

/** What was wrong with a script. */
export interface CodecError {
  readonly code: CodecErrorCode;
  /** At most 2,000 characters. */
  readonly message: string;
  /** The line of the user's script, from 1; undefined when no line of it is known. */
  readonly lineNumber: number | undefined;
}

/** One run of an encoder. */
export interface EncodeRequest {
  /**
   * Who asks: any text that the caller chooses, such as an organization's id, or that and a purpose. Owners that wait take turns. One whose
   * script lost its thread holds at most one for ten seconds, so what must not hold up each other needs owners of their own.
   */
  readonly owner: string;
  /** JavaScript in sloppy global code that defines `encodeDownlink(input)`, `Encode(fPort, obj, variables)` or `Encoder(obj, fPort)`; at most 256 KiB. */
  readonly script: string;
  /** `input.data`. */
  readonly data: JsonValue;
  /** `input.fPort`. */
  readonly fPort: number | undefined;
  /** `input.variables`; absent: none. */
  readonly variables?: Readonly<Record<string, string>>;
}

/** One run of a decoder. */
export interface DecodeRequest {
  /** As of an EncodeRequest. */
  readonly owner: string;
  /** JavaScript in sloppy global code: for uplinks `decodeUplink(input)`, `Decode(fPort, bytes, variables)` or `Decoder(bytes, fPort)`, for downlinks `decodeDownlink(input)`; at most 256 KiB. */
  readonly script: string;
  readonly direction: 'uplink' | 'downlink';
  /** `input.bytes`, which the script sees as a list of numbers; at most 64 KiB. */
  readonly bytes: Uint8Array;
  readonly fPort: number | undefined;
  /** `input.recvTime`, which the script sees as a Date: Unix milliseconds; undefined: it is not given. */
  readonly recvTime: number | undefined;
  /** `input.variables`; absent: none. */
  readonly variables?: Readonly<Record<string, string>>;
}

/** What is known of every run. */
export interface RunReport {
  /** The script's own warnings. */
  readonly warnings: readonly string[];
  /** What it wrote with `console`; at most 100 lines and 8 KiB, then one line that says what was cut. */
  readonly logs: readonly string[];
  /** How long the script ran, in milliseconds with a fraction. */
  readonly executionTimeMs: number;
  readonly error: CodecError | undefined;
  /**
   * True: the machine and not the script is why there is no result. It was stopped by the wall clock before it had computed as long as it
   * may, or its thread died for another reason than its memory. Trying again is then of use.
   */
  readonly blameless: boolean;
}

/** What an encoder gave: `output`, or `error`. */
export interface EncodeResult extends RunReport {
  readonly output: { readonly bytes: Uint8Array; readonly fPort: number | undefined } | undefined;
}

/** What a decoder gave: `data`, or `error`. */
export interface DecodeResult extends RunReport {
  /** JSON that can be stored and sent unchanged (see jsonProblem); at most 64 KiB and 32 levels deep. */
  readonly data: JsonObject | undefined;
}
