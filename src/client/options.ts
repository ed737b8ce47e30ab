/** Where a server is, and how to be sure that it is the right one. */
export interface ServerOptions {
  /** `host:port` of its gRPC port, for example `plantroom.local:50051`. */
  readonly address: string;
  /** The API key (`plr_…`); a function is asked anew for each call or attachment, so that a key can be rotated without a restart; what it throws, the call fails with. */
  readonly apiKey: string | (() => string);
  /** The organization of the key. */
  readonly organizationId: string;
  /** The CA certificate of the server, PEM: what `tls/ca.pem` of its data folder holds. Left out: the CAs that the machine trusts. */
  readonly ca?: string | Uint8Array;
  /** True: without TLS, where the server was told to do without. Not together with `ca`. */
  readonly insecure?: boolean;
}

/**
 * How often a call is tried again that did not get through (UNAVAILABLE). Only what is safe to repeat is repeated: reads, ExecuteCommand by its
 * trigger id, CancelExecution. Every call first waits for the connection as long as the pauses last together; only what has left counts as an attempt.
 * A stream of answers is opened once, and does not wait: watchExecutions and its like open it again.
 */
export interface RetryOptions {
  /** Attempts in all, 1 to 5; 1: never again. 5 unless said. */
  readonly attempts?: number;
  /** Before the second attempt, in milliseconds; each further pause is twice as long, each with some chance in it. 400 unless said. */
  readonly firstPauseMs?: number;
  /** The longest pause, in milliseconds. 5,000 unless said. */
  readonly longestPauseMs?: number;
}

/** What createPlantroomClient is given. */
export interface ClientOptions extends ServerOptions {
  /** How long a call may take, attempts and pauses included, in milliseconds; streams, of answers or of requests (UploadMedia), have no end. 30,000 unless said. */
  readonly deadlineMs?: number;
  readonly retry?: RetryOptions;
}

/** What one call may have of its own. */
export interface CallOptions {
  /** How long it may take, in milliseconds, instead of the client's `deadlineMs`. */
  readonly deadlineMs?: number;
  /** Ends the call; it fails with `CANCELLED`. */
  readonly signal?: AbortSignal;
  /** By this the server's log can be searched: 1 to 128 printable characters; one is made where none is given. */
  readonly requestId?: string;
}
