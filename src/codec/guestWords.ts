import type { JsonObject } from '../kernel/jsonValue';
import type { EntryPoint, Role } from './roles';

/**
 * What the two sides of the sandbox's wall say to each other, in primitive values only: texts, numbers, booleans. The guest side
 * (src/codec/guest) runs inside the engine, before and after the user's script; the host side is src/codec/worker.
 */
export interface Guest {
  /** Calls the script's function for a role; `input` is the JSON text of the role's input. Returns false if there is none. The result waits for `read`. */
  call(role: Role, found: Found, input: string): boolean;
  /** The JSON text of a GuestResult. Throws what a rejected promise of the script holds. */
  read(): string;
  /** The JSON text of a GuestFault. */
  explain(thrown: unknown): string;
}

/** The script's globals that are entry points of its role, and its `module.exports`, as it left them. */
export type Found = Readonly<Partial<Record<EntryPoint, unknown>>> & { readonly exports: unknown };

/** What an encoder is called with. */
export interface EncoderInput {
  readonly data: unknown;
  readonly fPort?: number;
  readonly variables: Readonly<Record<string, string>>;
}

/** What a decoder is called with. */
export interface DecoderInput {
  readonly bytes: readonly number[];
  readonly fPort?: number;
  /** Unix milliseconds; the script sees a Date. */
  readonly recvTime?: number;
  readonly variables: Readonly<Record<string, string>>;
}

/** What a script gave back. One of answer, errors and problem is there. */
export interface GuestResult {
  /** Of an encoder an EncoderAnswer, of a decoder its data. */
  readonly answer?: JsonObject;
  /** The script's own, at least one. */
  readonly errors?: readonly string[];
  readonly problem?: GuestProblem;
  readonly warnings: readonly string[];
}

/** Why what it gave back is of no use. */
export interface GuestProblem {
  readonly code: 'bad_output' | 'too_large';
  readonly message: string;
}

/** What an encoder gave: its bytes, and the port if it named one. */
export interface EncoderAnswer {
  readonly hex: string;
  readonly fPort?: number;
}

/** What it threw. */
export interface GuestFault {
  readonly message: string;
  readonly stack: string;
}
