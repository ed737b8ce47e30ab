/** One wrong field of a request, named by its path in JSON names (`physicalDevice.connectionId`, `mappings[2].sourcePath`). */
export interface FieldViolation {
  readonly field: string;
  /** What is wrong and what would be right. */
  readonly description: string;
}

/** What a failed call tells. */
export interface PlantroomErrorFacts {
  /** The gRPC status, for example `NOT_FOUND`. */
  readonly status: string;
  /**
   * snake_case, part of the API and never renamed, for example `device_not_found`. The client itself gives `options_invalid`,
   * `request_invalid` and `client_closed`. Empty if it came from neither (a deadline, a signal, a proxy, a broken link).
   */
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly FieldViolation[];
  /** By this the server's log can be searched; empty if there was no call. */
  readonly requestId: string;
  /** When it is worth trying again, in milliseconds; undefined: the server did not say. */
  readonly retryAfterMs: number | undefined;
}
