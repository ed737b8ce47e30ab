import type { JsonObject } from '../kernel/jsonValue';
import type { EntryPoint, Role } from './roles';

/**
 * The protocol between the guest and the host of the sandbox, in primitive values only: strings, numbers, booleans. The
 * guest side (src/codec/guest) runs inside the engine, before and after the user's script. The host side is
 * src/codec/worker.
 */
export interface SandboxGuest {
  /**
   * Calls the script's function for a role; `input` is the JSON text of the role's input. Returns false if there is no
   * such function. `read` returns the result.
   */
  call(role: Role, definitions: ScriptDefinitions, input: string): boolean;
  /** Returns the JSON text of a GuestResult. Throws the reason of the script's rejected promise. */
  read(): string;
  /** The JSON text of a GuestFault. */
  explain(thrown: unknown): string;
}

/** The entry points of the role among the script's globals, and its `module.exports`, after the script ran. */
export type ScriptDefinitions = Readonly<Partial<Record<EntryPoint, unknown>>> & { readonly exports: unknown };

/** The input of an encoder. */
export interface EncoderInput {
  readonly data: unknown;
  readonly fPort?: number;
  readonly variables: Readonly<Record<string, string>>;
}

/** The input of a decoder. */
export interface DecoderInput {
  readonly bytes: readonly number[];
  readonly fPort?: number;
  /** Unix milliseconds; the script sees a Date. */
  readonly recvTime?: number;
  readonly variables: Readonly<Record<string, string>>;
}

/** The script's result. Exactly one of answer, errors and problem is set. */
export interface GuestResult {
  /** An EncoderAnswer from an encoder, the data from a decoder. */
  readonly answer?: JsonObject;
  /** The script's own errors, at least one. */
  readonly errors?: readonly string[];
  readonly problem?: GuestProblem;
  readonly warnings: readonly string[];
  /** The first numbers of the answer that JSON does not have; the answer has null in their places. */
  readonly nonFinite?: readonly NonFiniteNumber[];
}

/** A number that JSON does not have, in the result of a script. */
export interface NonFiniteNumber {
  /** The keys that lead to it from the outermost object; indexes of lists are texts too. */
  readonly path: readonly string[];
  readonly text: 'NaN' | 'Infinity' | '-Infinity';
}

/** Why the returned value is not usable. */
export interface GuestProblem {
  readonly code: 'bad_output' | 'too_large';
  readonly message: string;
}

/** The bytes of an encoder, and the port if the encoder set it. */
export interface EncoderAnswer {
  readonly hex: string;
  readonly fPort?: number;
}

/** What the script threw. */
export interface GuestFault {
  readonly message: string;
  readonly stack: string;
}
