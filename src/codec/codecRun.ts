import type { JsonObject, JsonValue } from '../kernel/jsonValue';
import type { NonFiniteNumber } from './sandboxProtocol';

/** Why a script returned no usable result. Part of the API: never rename a code. */
export type CodecErrorCode =
  | 'syntax_error'
  | 'runtime_error'
  | 'encoder_errors'
  | 'decoder_errors'
  | 'no_encoder'
  | 'no_decoder'
  | 'bad_output'
  | 'timeout'
  | 'out_of_memory'
  | 'too_large';

/** Describes the error of a script. */
export interface CodecError {
  readonly code: CodecErrorCode;
  /** At most 2,000 characters. */
  readonly message: string;
  /** The line of the user's script, from 1; undefined if the line is unknown. */
  readonly lineNumber: number | undefined;
}

/** Formats the error of a script with its code and line. */
export function formatCodecError({ code, lineNumber, message }: CodecError): string {
  return `${code}${lineNumber === undefined ? '' : ` in line ${lineNumber}`}: ${message}`;
}

/** One run of an encoder. */
export interface EncodeRequest {
  /**
   * The fairness key: any text that the caller chooses, such as an organization's id, or that id and a purpose. Waiting
   * owners are served round robin. An owner whose script lost its thread holds at most one thread for ten seconds, so
   * work that must not block other work needs its own owner.
   */
  readonly owner: string;
  /**
   * JavaScript in sloppy global code that defines `encodeDownlink(input)`, `Encode(fPort, obj, variables)` or
   * `Encoder(obj, fPort)`; at most 256 KiB.
   */
  readonly script: string;
  /** `input.data`. */
  readonly data: JsonValue;
  /** `input.fPort`. */
  readonly fPort: number | undefined;
  /** `input.variables`; absent: no variables. */
  readonly variables?: Readonly<Record<string, string>>;
  /** More fields of `input`, as in published examples. Their names must differ from those above. */
  readonly extraInput?: JsonObject | undefined;
}

/** One run of a decoder. */
export interface DecodeRequest {
  /** See EncodeRequest. */
  readonly owner: string;
  /**
   * JavaScript in sloppy global code: for uplinks `decodeUplink(input)`, `Decode(fPort, bytes, variables)` or
   * `Decoder(bytes, fPort)`, for downlinks `decodeDownlink(input)`; at most 256 KiB.
   */
  readonly script: string;
  readonly direction: 'uplink' | 'downlink';
  /** `input.bytes`, which the script sees as a list of numbers; at most 64 KiB. */
  readonly bytes: Uint8Array;
  readonly fPort: number | undefined;
  /** `input.recvTime`, which the script sees as a Date: Unix milliseconds; undefined: not passed. */
  readonly recvTime: number | undefined;
  /** `input.variables`; absent: no variables. */
  readonly variables?: Readonly<Record<string, string>>;
  /** More fields of `input`, as in published examples. Their names must differ from those above. */
  readonly extraInput?: JsonObject | undefined;
}

/** The facts about every run. */
export interface RunReport {
  /** The script's own warnings. */
  readonly warnings: readonly string[];
  /** What the script wrote with `console`: at most 100 lines and 8 KiB, then one line that says how much was cut. */
  readonly logs: readonly string[];
  /** How long the script ran by the wall clock, in milliseconds with a fraction. */
  readonly executionTimeMs: number;
  readonly error: CodecError | undefined;
  /**
   * True if the machine and not the script is the reason for the missing result: the wall clock stopped the script
   * before it used its computing time, or its thread died for a reason other than memory. A retry can succeed.
   */
  readonly isServerFault: boolean;
}

/** The result of an encoder: `output` or `error`. */
export interface EncodeResult extends RunReport {
  readonly output: { readonly bytes: Uint8Array; readonly fPort: number | undefined } | undefined;
}

/** The result of a decoder: `data` or `error`. */
export interface DecodeResult extends RunReport {
  /** JSON that can be stored and sent unchanged (see findJsonProblem); at most 64 KiB and 32 levels deep. */
  readonly data: JsonObject | undefined;
  /**
   * The first numbers that the script returned and JSON does not have, some 200; `data` has null in their places.
   * Undefined without `data`.
   */
  readonly nonFinite?: readonly NonFiniteNumber[] | undefined;
}
