/**
 * What the two sides of the sandbox's wall say to each other, in primitive values only: texts, numbers, booleans. The guest side
 * (src/codec/guest) runs inside the engine, before and after the user's script; the host side is src/codec/worker.
 */
export interface Guest {
  /** Calls the encoder; `input` is the JSON text of GuestInput. Returns false if there is none. The result waits for `read`. */
  call(found: Found, input: string): boolean;
  /** The JSON text of a GuestResult. Throws what a rejected promise of the script holds. */
  read(): string;
  /** The JSON text of a GuestFault. */
  explain(thrown: unknown): string;
}

/** The script's globals of these names and its `module.exports`, as it left them. */
export interface Found {
  readonly encodeDownlink: unknown;
  readonly Encode: unknown;
  readonly Encoder: unknown;
  readonly exports: unknown;
}

/** What the encoder is called with. */
export interface GuestInput {
  readonly data: unknown;
  readonly fPort?: number;
  readonly variables: Readonly<Record<string, string>>;
}

/** What it gave back. One of hex, errors and problem is there. */
export interface GuestResult {
  readonly hex?: string;
  readonly fPort?: number;
  /** The script's own, at least one. */
  readonly errors?: readonly string[];
  readonly problem?: { readonly code: 'bad_output' | 'too_large'; readonly message: string };
  readonly warnings: readonly string[];
}

/** What it threw. */
export interface GuestFault {
  readonly message: string;
  readonly stack: string;
}
