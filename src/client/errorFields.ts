/**
 * An invalid field of a request, with its path in JSON names (`physicalDevice.connectionId`, `mappings[2].sourcePath`).
 */
export interface FieldViolation {
  readonly field: string;
  /** What is wrong and what would be valid. */
  readonly description: string;
}

/** The details of a failed call. */
export interface PlantroomErrorFields {
  /** The gRPC status, for example `NOT_FOUND`. */
  readonly status: string;
  /**
   * The reason in snake_case, for example `device_not_found`. Reasons are part of the API and are never renamed. The
   * client itself uses `options_invalid`, `request_invalid` and `client_closed`. Empty if neither the server nor the
   * client set one (deadline, signal, proxy, interrupted connection).
   */
  readonly reason: string;
  /** Further facts by name, for example the id of a resource. */
  readonly metadata: Readonly<Record<string, string>>;
  /** All invalid fields of the request; empty if the error is not about fields. */
  readonly violations: readonly FieldViolation[];
  /** The request id, which is also in the log of the server; empty if no call was made. */
  readonly requestId: string;
  /** The time to wait before a retry, in milliseconds; undefined: the server did not set one. */
  readonly retryAfterMs: number | undefined;
}
