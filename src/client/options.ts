/** The address of a server, the credentials, and TLS. */
export interface ServerOptions {
  /** `host:port` of the gRPC port, for example `plantroom.local:50051`. */
  readonly address: string;
  /**
   * The API key (`plr_…`), or a function that returns it. The function is called for every call and attachment, so that
   * a key can be rotated without a restart. If it throws, the call fails with that error.
   */
  readonly apiKey: string | (() => string);
  /** The id of the organization of the key. */
  readonly organizationId: string;
  /**
   * The CA certificate of the server in PEM: the contents of `tls/ca.pem` in its data folder. Default: the CAs that
   * Node.js trusts.
   */
  readonly ca?: string | Uint8Array;
  /** True: connect without TLS, if TLS is disabled on the server. Cannot be combined with `ca`. Default: false. */
  readonly insecure?: boolean;
}

/**
 * How calls that fail with `UNAVAILABLE` are retried. Only calls that are safe to repeat are repeated: reads, methods
 * that create (by idempotency key), ExecuteCommand (by trigger id) and CancelExecution. Every call first waits for the
 * connection as long as the pauses last together; only a call that was sent counts as an attempt. A stream of responses
 * is opened once and does not wait; watchExecutions and the similar functions reopen it.
 */
export interface RetryOptions {
  /** The total number of attempts, 1 to 5; 1: no retries. Default: 5. */
  readonly attempts?: number;
  /**
   * The pause before the second attempt, in whole milliseconds, 1 to 2,147,483,647. Each further pause is twice as
   * long, and each has a random variation of 20 %. Default: 400.
   */
  readonly firstPauseMs?: number;
  /** The maximum pause, in whole milliseconds, 1 to 2,147,483,647. Default: 5,000. */
  readonly longestPauseMs?: number;
}

/** The options of createPlantroomClient. */
export interface ClientOptions extends ServerOptions {
  /**
   * The maximum duration of a call including all attempts and pauses, in whole milliseconds, 1 to 2,147,483,647. It
   * does not apply to streams of responses or of requests (UploadMedia). Default: 30,000.
   */
  readonly deadlineMs?: number;
  /** How calls are retried. */
  readonly retry?: RetryOptions;
}

/** The options of one call. */
export interface CallOptions {
  /**
   * The maximum duration of the call, in whole milliseconds, 1 to 2,147,483,647. Default: `deadlineMs` of the client;
   * for streams: unlimited.
   */
  readonly deadlineMs?: number;
  /** Cancels the call, which then fails with `CANCELLED`. */
  readonly signal?: AbortSignal;
  /**
   * The request id, which is also in the log of the server: 1 to 128 printable ASCII characters without white space.
   * Default: a new UUID.
   */
  readonly requestId?: string;
  /**
   * Makes a call that creates a record safe to repeat: 1 to 255 printable ASCII characters without white space, the
   * same for every attempt. Within 24 hours, the server answers a repeated call with the first response. Default: a new
   * UUID for each call. Set your own, for example a UUID, to repeat a call that failed. For ExecuteCommand it is used
   * as `triggerId` if the request has none; other methods ignore it.
   */
  readonly idempotencyKey?: string;
}
